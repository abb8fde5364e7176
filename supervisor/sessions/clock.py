"""Clocks: time stamps, steady time for deadlines, and a clock that excludes suspended time.

While the machine sleeps, a signal or a debugger stops the process, or an agent blocks the event
loop, no session can make progress. `ActiveClock` leaves that time out; silence is measured by it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

import trio
from trio_util import periodic

from supervisor.core.steady_time import ClockReading, resume_steady
from supervisor.drivers.identity import read_boot_id
from supervisor.drivers.watchdog import uses_real_clock

# A wall clock that was set back by at most this is waited for; by more, it is followed.
_HOLD_SECONDS: Final = 1.0
# Start of wall-clock time under a virtual clock (tests, simulations).
_VIRTUAL_EPOCH: Final = 1_000_000_000.0


def _virtual_wall() -> float:
    return _VIRTUAL_EPOCH + trio.current_time()


def in_order(at: float, last_at: float) -> float:
    """Return the time stamp of a record behind one with the stamp `last_at`.

    It is not earlier than `last_at`, unless the wall clock was set back in between: then it is
    true again at once, and only the number of the record tells the order.
    """
    return last_at if at < last_at <= at + _HOLD_SECONDS else at


class Clock:
    """The time of events: a wall-clock stamp, and steady time for everything that has a deadline.

    Both follow a virtual clock. `previous` is the last reading of an earlier supervisor of the
    store, and `read_wall` replaces the wall clock.
    """

    def __init__(
        self,
        previous: ClockReading | None = None,
        *,
        read_wall: Callable[[], float] | None = None,
    ) -> None:
        self._is_real = uses_real_clock()
        # Of the clock itself: `trio.current_time` looks the clock up at each of some ten calls a
        # turn, which takes three times as long.
        self.loop_time: Callable[[], float] = trio.lowlevel.current_clock().current_time
        self._read_wall = read_wall or (time.time if self._is_real else _virtual_wall)
        self._last_at = self._read_wall()
        self._boot_id = read_boot_id() if self._is_real else None
        steady = resume_steady(
            previous, boot_id=self._boot_id, monotonic=self._monotonic(), wall=self._last_at
        )
        self._steady_offset = steady - self.loop_time()

    def now(self) -> float:
        """Return the current time stamp, by the wall clock."""
        at = self._read_wall()
        if at < self._last_at:
            at = in_order(at, self._last_at)
        self._last_at = at
        return at

    def now_and_steady(self) -> tuple[float, float]:
        """Return both times for the stamp of an event, as `now` and `steady` do."""
        at = self._read_wall()
        if at < self._last_at:
            at = in_order(at, self._last_at)
        self._last_at = at
        return at, self.loop_time() + self._steady_offset

    def steady(self) -> float:
        """Return the current steady time; only it may be compared with a stored deadline."""
        return self.loop_time() + self._steady_offset

    def wall_time_of(self, steady_at: float | None) -> float | None:
        """Return the instant of steady time as the wall clock now shows it, for people."""
        if steady_at is None:
            return None
        ahead = self.now() - self.steady()
        return steady_at if abs(ahead) <= _HOLD_SECONDS else steady_at + ahead

    def reading(self) -> ClockReading:
        """Return a reading from which a later supervisor continues the steady time."""
        return ClockReading(
            boot_id=self._boot_id,
            monotonic=self._monotonic(),
            steady=self.steady(),
            wall=self._read_wall(),
        )

    def _monotonic(self) -> float:
        # trio's clock starts anywhere in each process; the system's is one for the whole boot.
        return time.monotonic() if self._is_real else self.loop_time()


TICK_SECONDS: Final = 0.5

GAP_SECONDS: Final = 1.5


class ActiveClock:
    """Clock that excludes time in which the process was suspended or stopped.

    It ticks twice a second; if several ticks are missing, the process did not run. It ticks only in
    real time, because a virtual clock jumps without a suspension.
    """

    def __init__(self, loop_time: Callable[[], float] = trio.current_time) -> None:
        self._loop_time = loop_time
        # The last tick; infinite before the first, so that no time is a gap behind it.
        self._last = math.inf
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
        if now - self._last > GAP_SECONDS:
            self.suspended_seconds += now - self._last
        self._last = now

    def now(self) -> float:
        """Return the active seconds since an arbitrary instant; only differences are meaningful."""
        now = self._loop_time()
        if now - self._last > GAP_SECONDS:
            self.tick(now)  # the first reader after a gap must see it, before `run` does
        return now - self.suspended_seconds
