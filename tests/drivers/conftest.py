"""What the tests of drivers share.

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

from actors.testing import VirtualClock
from supervisor import PythonAgent
from supervisor.core import events as ev
from supervisor.drivers.port import Workshop
from tests.drivers.functions import Function, Run
from tests.drivers.office import Desk, StandInOffice

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
async def workshop(nursery: trio.Nursery) -> AsyncIterator[Workshop]:
    """Where the agents of the test are at work; it closes with the test."""
    workshop = Workshop(nursery)
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
