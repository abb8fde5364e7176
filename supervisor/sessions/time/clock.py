"""Time: durations by trio's clock, stamps by the wall."""

from __future__ import annotations

import time

import trio

from supervisor.drivers.watchdog import time_is_real

# A wall clock that is further ahead than this was set, or the machine slept.
_JUMP_SECONDS = 1.0
# Where time begins for a clock that is not the machine's own (tests, simulations).
_VIRTUAL_EPOCH = 1_000_000_000.0


class Clock:
    """Wall-clock stamps that never go backwards, whatever happens to the wall clock.

    They go by trio's clock, so that virtual time is virtual here too, and catch up with the wall
    when the machine has slept.
    """

    def __init__(self) -> None:
        self._is_real = time_is_real()
        begin = time.time() if self._is_real else _VIRTUAL_EPOCH
        self._offset = begin - trio.current_time()

    def now(self) -> float:
        """The stamp for what happens now."""
        now = trio.current_time() + self._offset
        if self._is_real:
            ahead = time.time() - now
            if ahead > _JUMP_SECONDS:
                self._offset += ahead
                now += ahead
        return now
