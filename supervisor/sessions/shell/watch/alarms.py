"""The timers of one incarnation, by their names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, get_args

from supervisor.core.effects import TimerName
from supervisor.sessions.time.timers import Timer

if TYPE_CHECKING:
    from supervisor.sessions.shell.actor import SessionActor

_SET_AGAIN: Final = frozenset(get_args(TimerName))


class Alarms:
    """Sets and clears them. There are few, and most sessions are idle: small matters here."""

    __slots__ = ("_actor", "_timers")

    def __init__(self, actor: SessionActor) -> None:
        self._actor = actor
        self._timers: tuple[Timer, ...] = ()

    def __call__(self, name: str) -> None:
        """One of them rings: a bound method of the actor for each would be dearer than this."""
        self._actor.ring(name)

    def set(self, name: str, after_seconds: float) -> None:
        """Let it ring after so many seconds, and not when it was going to."""
        if after_seconds == math.inf:
            return
        timer = self._find(name)
        if timer is None:
            timer = Timer(name, self)
            self._timers += (timer,)
        self._actor.seat.house.timers.set(timer, after_seconds)

    def clear(self, name: str) -> None:
        """Not any more."""
        timer = self._find(name)
        if timer is not None:
            timer.clear()
            if name not in _SET_AGAIN:  # a request's own
                self._actor.seat.house.timers.drop(timer)
                self._timers = tuple(one for one in self._timers if one is not timer)

    def drop(self) -> None:
        """None of them ever rings again."""
        for timer in self._timers:
            self._actor.seat.house.timers.drop(timer)
        self._timers = ()

    def _find(self, name: str) -> Timer | None:
        for timer in self._timers:
            if timer.name == name:
                return timer
        return None
