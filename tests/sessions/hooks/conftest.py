"""What the tests of hooks share: a dispatcher with nothing around it, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from supervisor.drivers.port import Workshop
from supervisor.sessions.hooks import Hooks
from tests.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
async def workshop(nursery: trio.Nursery) -> AsyncIterator[Workshop]:
    """Where the hooks of the test run; whoever shields itself there waits for its `closing`."""
    workshop = Workshop(nursery)
    yield workshop
    workshop.closing.set()


@pytest.fixture
def hooks(workshop: Workshop) -> Hooks:
    """Nobody works off its queue yet."""
    return Hooks(workshop)


@pytest.fixture
def told(hooks: Hooks, workshop: Workshop) -> Hooks:
    """The same, with somebody who does."""
    workshop.start_soon(hooks.run)
    return hooks
