"""Fixtures of the store tests: every store implementation, in virtual time.

A new store is added to `STORES` with one line and is tested against the whole contract.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytest

from actors import Group, open_actors
from supervisor.store.memory import MemoryStore
from supervisor.store.pending import StoreHealth
from supervisor.store.port import Store
from supervisor.store.sqlite.store import open_sqlite
from tests.support.virtual_time import use_virtual_time

OpenStore: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def memory() -> AsyncIterator[Store]:
    yield MemoryStore()


@asynccontextmanager
async def sqlite() -> AsyncIterator[Store]:
    with TemporaryDirectory() as folder:
        async with open_sqlite(Path(folder) / "state.db") as store:
            yield store


STORES: tuple[OpenStore, ...] = (memory, sqlite)


@pytest.fixture(params=STORES, ids=lambda open_store: open_store.__name__)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    open_store: OpenStore = request.param
    async with open_store() as opened:
        yield opened


@pytest.fixture
async def system() -> AsyncIterator[Group]:
    """Yield an open actor system."""
    async with open_actors() as root:
        yield root


@pytest.fixture
def health() -> StoreHealth:
    """Return the health of a healthy store."""
    return StoreHealth()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)
