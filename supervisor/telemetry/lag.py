"""Lag of the event loop: a task that sleeps, and compares the clock when it wakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trio_util import periodic

INTERVAL_SECONDS: Final = 0.25


async def measure_lag(observe: Callable[[float], None]) -> None:
    """Observe the lag of the loop four times a second, until cancelled."""
    async for _, since_last in periodic(INTERVAL_SECONDS):
        if since_last is not None:
            observe(max(0.0, since_last - INTERVAL_SECONDS))
