"""Clocks: wall-clock time stamps, and a clock that excludes suspended time.

While the machine sleeps, a signal or a debugger stops the process, or an agent blocks the event
loop, no session can make progress. `ActiveClock` leaves that time out; silence is measured by it.
"""

from __future__ import annotations

import time
from typing import Final

import trio
from trio_util import periodic

from supervisor.drivers.watchdog import uses_real_clock

# A wall clock that is further ahead than this was set, or the machine slept.
_JUMP_SECONDS = 1.0
# Start of wall-clock time under a virtual clock (tests, simulations).
_VIRTUAL_EPOCH = 1_000_000_000.0


class Clock:
    """Wall-clock time stamps that never go backwards, even if the wall clock does.

    The time stamps follow trio's clock, a virtual clock included, and catch up with the wall clock
    after the machine has slept.
    """

    def __init__(self) -> None:
        self._is_real = uses_real_clock()
        begin = time.time() if self._is_real else _VIRTUAL_EPOCH
        self._offset = begin - trio.current_time()

    def now(self) -> float:
        """Return the current time stamp."""
        now = trio.current_time() + self._offset
        if self._is_real:
            ahead = time.time() - now
            if ahead > _JUMP_SECONDS:
                self._offset += ahead
                now += ahead
        return now


TICK_SECONDS: Final = 0.5

GAP_SECONDS: Final = 1.5


class ActiveClock:
    """Clock that excludes time in which the process was suspended or stopped.

    It ticks twice a second; if several ticks are missing, the process did not run. It ticks only in
    real time, because a virtual clock jumps without a suspension.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        # Invariant: the sum of all gaps so far; it only grows.
        self.suspended_seconds = 0.0

    async def run(self) -> None:
        """Tick until cancelled; return at once under a virtual clock."""
        if not uses_real_clock():
            return
        async for _ in periodic(TICK_SECONDS):
            self.tick(trio.current_time())

    def tick(self, now: float) -> None:
        """Record a tick at `now`; count the time since the last tick as suspended if it is long."""
        if self._last is not None and now - self._last > GAP_SECONDS:
            self.suspended_seconds += now - self._last
        self._last = now

    def now(self) -> float:
        """Return the active seconds since an arbitrary instant; only differences are meaningful."""
        now = trio.current_time()
        if self._last is not None:  # the first reader after a gap must see it, before `run` does
            self.tick(now)
        return now - self.suspended_seconds
