"""What the tests of drivers share.

Every async test of this folder runs in virtual time: a time-out costs nothing and is exact, and
a deadlock fails the test with the names of those who wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from supervisor import PythonAgent
from supervisor.core import events as ev
from supervisor.drivers.port import Workshop
from tests.drivers.functions import Function, Run
from tests.drivers.in_memory import InMemoryProcesses
from tests.drivers.office import Desk, StandInOffice
from tests.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
async def workshop(nursery: trio.Nursery) -> AsyncIterator[Workshop]:
    """Where the agents of the test are at work; it closes with the test."""
    workshop = Workshop(nursery, processes=InMemoryProcesses())
    yield workshop
    workshop.closing.set()


@pytest.fixture
def run(workshop: Workshop) -> Run:
    """Runs one turn of a function, to its end."""

    async def run(function: Function, office: StandInOffice | None = None) -> ev.TurnEnded:
        desk = Desk(PythonAgent("mine", function), workshop, office)
        desk.order("go")
        return await desk.office.heard(ev.TurnEnded)

    return run
