"""The named timers of one incarnation of a session, and the event that each sends its actor."""

from __future__ import annotations

import math
from typing import Final, get_args

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core.effects import TimerName

from .liveness import Liveness
from .slot import SessionSlot
from .timers import Timer, Timers


class _StopIfIdle:
    """Message of the actor to itself: stop if there is nothing left to do."""


STOP_IF_IDLE: Final = _StopIfIdle()
IDLE_STOP_SECONDS: Final = 1.0
_IDLE_STOP: Final = "rest"
_RETRY_SECONDS: Final = 0.05
_REUSED_NAMES: Final = frozenset(get_args(TimerName))


class SessionTimers:
    """Named timers of one incarnation. Most sessions are idle, so they are kept small.

    A timer that is due sends its event to the actor.
    """

    __slots__ = ("_heap", "_liveness", "_ref", "_slot", "_timers")

    def __init__(self, heap: Timers, liveness: Liveness, slot: SessionSlot, ref: Ref) -> None:
        self._heap = heap
        self._liveness = liveness
        self._slot = slot
        self._ref = ref
        self._timers: tuple[Timer, ...] = ()

    def set(self, name: str, after_seconds: float) -> None:
        """Set the timer to be due after the seconds, in place of its earlier due time."""
        if after_seconds == math.inf:
            return
        for timer in self._timers:
            if timer.name == name:
                break
        else:
            timer = Timer(name, self)  # not a bound method, which takes 64 bytes
            self._timers += (timer,)
        self._heap.set(timer, after_seconds)

    def clear(self, name: str) -> None:
        """Clear the timer, if it is set."""
        for timer in self._timers:
            if timer.name == name:
                timer.clear()
                if name not in _REUSED_NAMES:  # the timer of one request or call
                    self._heap.drop(timer)
                    self._timers = tuple(one for one in self._timers if one is not timer)
                return

    def drop(self) -> None:
        """Drop all timers."""
        for timer in self._timers:
            self._heap.drop(timer)
        self._timers = ()

    def set_idle_stop(self) -> None:
        """Send the actor `STOP_IF_IDLE` after a while."""
        self.set(_IDLE_STOP, IDLE_STOP_SECONDS)

    def set_silence_check(self) -> None:
        """Set the timer for the time at which the silence may be too long."""
        seconds = self._liveness.seconds_until_next_check(self._slot)
        if seconds is not None:
            self.set("silence", seconds)

    def __call__(self, name: str) -> None:
        """Send the actor the event of a timer that is due, if it still applies."""
        is_idle_stop = name == _IDLE_STOP
        event = STOP_IF_IDLE if is_idle_stop else self._liveness.timer_event(name, self._slot)
        if event is None:
            if name == "silence":
                self.set_silence_check()
            return
        try:
            self._ref.tell(event, urgent=True)
        except MailboxFull:
            self.set(name, _RETRY_SECONDS)
        except ActorStopped:
            pass
