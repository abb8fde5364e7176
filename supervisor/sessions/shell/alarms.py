"""The timers of one incarnation, by their names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

from supervisor.core.effects import TimerName

from .timers import Timer, Timers


class Alarms:
    """Sets and clears them; a list, for there are few, and a dict would be dearer than looking."""

    __slots__ = ("_all", "_ring", "_timers")

    def __init__(self, timers: Timers, ring: Callable[[str], None]) -> None:
        self._all = timers
        self._ring = ring
        self._timers: list[Timer] = []

    def set(self, name: str, after_seconds: float) -> None:
        """Let it ring after so many seconds, and not when it was going to."""
        if after_seconds == math.inf:
            return
        timer = self._find(name)
        if timer is None:
            timer = Timer(name, self._ring)
            self._timers.append(timer)
        self._all.set(timer, after_seconds)

    def clear(self, name: str) -> None:
        """Not any more."""
        timer = self._find(name)
        if timer is not None:
            timer.clear()
            if name not in get_args(TimerName):  # a request's own, which is never set again
                self._all.drop(timer)
                self._timers.remove(timer)

    def drop(self) -> None:
        """None of them ever rings again."""
        for timer in self._timers:
            self._all.drop(timer)
        self._timers.clear()

    def _find(self, name: str) -> Timer | None:
        for timer in self._timers:
            if timer.name == name:
                return timer
        return None
