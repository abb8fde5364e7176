"""By how much the loop is late: a task that sleeps, and looks at the clock when it wakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

BEAT_SECONDS: Final = 0.25


async def measure_lag(observe: Callable[[float], None]) -> None:
    """Have every lateness observed, four times a second, until cancelled."""
    while True:
        due = trio.current_time() + BEAT_SECONDS
        await trio.sleep_until(due)
        observe(max(0.0, trio.current_time() - due))
