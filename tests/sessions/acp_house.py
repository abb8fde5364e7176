"""A whole supervisor whose agents are ACP processes in memory.

When its block is left nothing is alive, no process is on record, and no agent got a prompt while it
was busy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import supervisor
import supervisor.runtime
from supervisor import Session, Settings, Supervisor
from supervisor.drivers.acp.agent import AcpAgent, scripted_process
from supervisor.store.memory import MemoryStore
from tests.drivers.in_memory import InMemoryProcesses


@asynccontextmanager
async def open_house(
    *agents: AcpAgent,
    settings: Settings | None = None,
    processes: InMemoryProcesses | None = None,
) -> AsyncIterator[tuple[Supervisor, InMemoryProcesses]]:
    """A supervisor with these agents, and their processes."""
    processes = processes or InMemoryProcesses()
    store = MemoryStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor.runtime, "ContainedProcesses", lambda: processes)
        patch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
        async with supervisor.open(agents=agents, settings=settings) as sup:
            yield sup, processes
    assert processes.alive == []
    assert processes.overlaps == 0
    assert await store.processes() == []


@asynccontextmanager
async def open_session(
    *flags: str, settings: Settings | None = None, processes: InMemoryProcesses | None = None
) -> AsyncIterator[tuple[Session, InMemoryProcesses]]:
    """A session of a scripted agent with those flags, up and idle, and the processes."""
    agent = scripted_process("agent", flags)
    async with open_house(agent, settings=settings, processes=processes) as (sup, them):
        yield await sup.create("agent"), them
