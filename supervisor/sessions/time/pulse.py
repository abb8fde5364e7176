"""A clock that stands still when the whole process does: nobody is blamed for what did not run.

The machine slept, somebody stopped us with a signal or a debugger, or an agent kept the loop to
itself: time went by in which nobody could make progress. Silence is measured without it.
"""

from __future__ import annotations

from typing import Final

import trio

from supervisor.drivers.watchdog import time_is_real

BEAT_SECONDS: Final = 0.5
GAP_SECONDS: Final = 1.5


class Pulse:
    """Beats twice a second; where a few beats are missing, nothing ran.

    Only where time is real: a virtual clock jumps as far as it likes, and nothing stood still.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        # Invariant: the sum of all gaps so far; it only grows.
        self.lost_seconds = 0.0

    async def run(self) -> None:
        """Beat, for ever; runs until cancelled."""
        if not time_is_real():
            return
        while True:
            self.beat(trio.current_time())
            await trio.sleep(BEAT_SECONDS)

    def beat(self, now: float) -> None:
        """It is `now`; if that is long after the last beat, nobody could do anything meanwhile."""
        if self._last is not None and now - self._last > GAP_SECONDS:
            self.lost_seconds += now - self._last
        self._last = now

    def running_time(self) -> float:
        """For how long anything could run, since some instant; only differences mean something."""
        now = trio.current_time()
        if self._last is not None:  # whoever looks first after a gap sees it
            self.beat(now)
        return now - self.lost_seconds
