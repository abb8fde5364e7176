"""A whole supervisor whose agents are ACP processes in memory.

When its block is left nothing is alive, no agent got a prompt while it was busy, and all that was
sent is what the protocol's schema says.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import supervisor
import supervisor.runtime
from supervisor import Session, Settings, Supervisor
from supervisor.drivers.acp.agent import AcpAgent, scripted_process
from tests.drivers.acp.driver_desk import assert_all_valid
from tests.drivers.in_memory import InMemoryProcess, InMemoryProcesses


@asynccontextmanager
async def open_house(
    *agents: AcpAgent,
    settings: Settings | None = None,
    processes: InMemoryProcesses | None = None,
) -> AsyncIterator[tuple[Supervisor, InMemoryProcesses]]:
    """A supervisor with these agents, and their processes."""
    processes = processes or InMemoryProcesses()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor.runtime, "ContainedProcesses", lambda: processes)
        async with supervisor.open(agents=agents, settings=settings) as sup:
            yield sup, processes
    assert processes.alive == []
    assert processes.overlaps == 0
    for process in processes.all:
        assert_all_valid(process)


@asynccontextmanager
async def open_session(
    *flags: str, settings: Settings | None = None, processes: InMemoryProcesses | None = None
) -> AsyncIterator[tuple[Session, InMemoryProcesses]]:
    """A session of a scripted agent with those flags, up and idle, and the processes."""
    agent = scripted_process("agent", flags)
    async with open_house(agent, settings=settings, processes=processes) as (sup, them):
        yield await sup.create("agent"), them


# Whether the agent can go on with its own conversation, and how.
ways = pytest.mark.parametrize("way", ["--load", "--resume", None])


def flags_of(way: str | None) -> list[str]:
    return [] if way is None else [way]


def prompts(process: InMemoryProcess) -> list[list[str]]:
    """The texts of each prompt that it got."""
    said = [json.loads(line) for side, line in process.wire if side == "client"]
    sent = [message["params"] for message in said if message.get("method") == "session/prompt"]
    return [[block["text"] for block in params["prompt"]] for params in sent]
