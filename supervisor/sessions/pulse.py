"""Notices that the whole process stood still, so that nobody is blamed for what did not run.

The machine slept, somebody stopped us with a signal or a debugger, or an agent kept the loop to
itself: time went by in which nobody could make progress.
"""

from __future__ import annotations

import math
from typing import Final

import trio

from supervisor.drivers.watchdog import time_is_real

BEAT_SECONDS: Final = 0.5
GAP_SECONDS: Final = 1.5


class Pulse:
    """Beats twice a second; where a few beats are missing, that is a gap.

    Short, because the silence that is allowed may be short too. A loop that is merely late now and
    then gives everybody a little more time by that, and takes nobody's.

    Only where time is real: a virtual clock jumps as far as it likes, and nothing stood still.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        # Silence before this instant counts for nothing.
        self.floor = -math.inf

    async def run(self) -> None:
        """Beat, for ever; runs until cancelled."""
        if not time_is_real():
            return
        while True:
            self.beat(trio.current_time())
            await trio.sleep(BEAT_SECONDS)

    def beat(self, now: float) -> None:
        """It is `now`: if that is long after the last beat, everybody's silence begins anew."""
        if self._last is not None and now - self._last > GAP_SECONDS:
            self.floor = now
        self._last = now

    def look(self, now: float) -> float:
        """The instant before which silence counts for nothing, as of now."""
        if self._last is not None:
            self.beat(now)
        return self.floor
