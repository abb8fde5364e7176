"""What the tests of hooks share: a dispatcher with nothing around it, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from supervisor.drivers.runtime import DriverRuntime
from supervisor.sessions.hooks import Hooks
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
async def runtime(nursery: trio.Nursery) -> AsyncIterator[DriverRuntime]:
    """Yield the runtime of the hooks; a shielded hook waits for its `closing`."""
    runtime = DriverRuntime(nursery)
    yield runtime
    runtime.shutdown_started.set()


@pytest.fixture
def hooks(runtime: DriverRuntime) -> Hooks:
    """Return hooks whose observer queue is not being processed."""
    return Hooks(runtime)


@pytest.fixture
def told(hooks: Hooks, runtime: DriverRuntime) -> Hooks:
    """Return hooks whose observer queue is being processed."""
    runtime.start_soon(hooks.run)
    return hooks
