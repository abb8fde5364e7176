"""What the tests of the store share: every store there is, in virtual time.

A new store joins `STORES` with one line and inherits the whole contract.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import pytest
import trio

from actors.testing import VirtualClock
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Store

Result = TypeVar("Result")
OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def memory() -> AsyncIterator[Store]:
    yield MemoryStore()


STORES: tuple[OpenStore, ...] = (memory,)


@pytest.fixture(params=STORES, ids=lambda open_store: open_store.__name__)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    open_store: OpenStore = request.param
    async with open_store() as opened:
        yield opened


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
