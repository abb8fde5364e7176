"""Async tests in virtual time.

A time-out costs nothing and is exact, and a deadlock fails the test with the names of the
waiting tasks.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from actors.testing import VirtualClock

# Beyond all that a test waits for; a test that waits for ever beside a timer that repeats fails.
LIMIT_SECONDS = 100 * 86_400.0

Result = TypeVar("Result")


def run_in_virtual_time(
    main: Callable[[], Awaitable[Result]],
    *,
    clock: trio.abc.Clock | None,
    instruments: Sequence[trio.abc.Instrument],
) -> Result:
    clock = clock or VirtualClock(limit_seconds=LIMIT_SECONDS)
    return trio.run(main, clock=clock, instruments=instruments)


def use_virtual_time(items: list[pytest.Item], folder: Path) -> None:
    """Run every async test directly in this folder in virtual time."""
    for item in items:
        if item.path.parent == folder and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time))
