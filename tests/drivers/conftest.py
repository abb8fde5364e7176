"""Fixtures of the driver tests.

Every async test of this folder runs in virtual time: a timeout costs nothing and is exact, and a
deadlock fails the test with the names of the waiting tasks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from supervisor import PythonAgent
from supervisor.core import agent_events
from supervisor.drivers.runtime import DriverRuntime
from tests.support.driver_context import DriverHarness, FakeDriverContext
from tests.support.function_agents import Function, Run
from tests.support.in_memory_processes import InMemoryProcesses
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
async def runtime(nursery: trio.Nursery) -> AsyncIterator[DriverRuntime]:
    """Yield the runtime of the agents; it closes with the test."""
    runtime = DriverRuntime(nursery, processes=InMemoryProcesses())
    yield runtime
    runtime.shutdown_started.set()


@pytest.fixture
def run(runtime: DriverRuntime) -> Run:
    """Return a function that runs one turn of an agent function to its end."""

    async def run(
        function: Function, context: FakeDriverContext | None = None
    ) -> agent_events.TurnEnded:
        harness = DriverHarness(PythonAgent("mine", function), runtime, context)
        harness.order("go")
        return await harness.context.heard(agent_events.TurnEnded)

    return run
