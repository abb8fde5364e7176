"""What the tests of the runtime share.

Every async test of this folder runs in virtual time: a time-out costs nothing and is exact, and
a deadlock fails the test with the names of those who wait.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from actors import Group, open_actors
from actors.testing import VirtualClock
from tests.actors.cast import Diary

Result = TypeVar("Result")


def run_in_virtual_time(
    main: Callable[[], Awaitable[Result]],
    *,
    clock: trio.abc.Clock | None,
    instruments: Sequence[trio.abc.Instrument],
) -> Result:
    return trio.run(main, clock=clock or VirtualClock(), instruments=instruments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time))


@pytest.fixture
def diary() -> Diary:
    return []


@pytest.fixture
async def system() -> AsyncIterator[Group]:
    async with open_actors() as root:
        yield root
