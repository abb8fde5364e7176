"""Bounds of the start and the close of a driver, which may be of another author."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .driver_context import SessionDriverContext
from .timers import Timer, Timers

# Until AgentAttached or StartFailed, as for the handshake of a process.
START_SECONDS: Final = 60.0
# Until AgentClosed, added to the ladder: a driver may take its steps one by one.
CLOSE_MARGIN_SECONDS: Final = 5.0


class DriverTimers:
    """At most one timer for each driver context of one incarnation."""

    __slots__ = ("_heap", "_timers")

    def __init__(self, heap: Timers) -> None:
        self._heap = heap
        # Most sessions have none, so it is not a dictionary.
        self._timers: tuple[tuple[SessionDriverContext, Timer], ...] = ()

    def set(
        self,
        context: SessionDriverContext,
        seconds: float,
        on_overdue: Callable[[SessionDriverContext], None],
    ) -> None:
        """Call `on_overdue` with the context after the seconds, unless the timer is dropped."""
        self.drop(context)
        timer = Timer(f"driver of {context.session_id}", lambda _: on_overdue(context))
        self._timers += ((context, timer),)
        self._heap.set(timer, seconds)

    def drop(self, context: SessionDriverContext) -> None:
        """Drop the timer of the context, if it has one."""
        for owner, timer in self._timers:
            if owner is context:
                self._heap.drop(timer)
                self._timers = tuple(one for one in self._timers if one[0] is not context)
                return

    def drop_all(self) -> None:
        """Drop all timers."""
        for _, timer in self._timers:
            self._heap.drop(timer)
        self._timers = ()
