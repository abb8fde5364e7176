"""Fixtures of the runtime's tests.

Every async test of this folder runs in virtual time: a time-out costs nothing and is exact, and
a deadlock fails the test with the names of the waiting tasks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import Group, open_actors
from tests.support.fake_actors import ActorLog
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def actor_log() -> ActorLog:
    return []


@pytest.fixture
async def system() -> AsyncIterator[Group]:
    async with open_actors() as root:
        yield root
