"""A whole supervisor whose agents are ACP processes in memory.

When its block is left nothing is alive, no agent got a prompt while it was busy, and all that was
sent is what the protocol's schema says.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import pytest

import supervisor
import supervisor.runtime
from supervisor import Session, Settings, Supervisor
from supervisor.drivers.acp.agent import AcpAgent, scripted_process

from .acp_driver import assert_all_valid
from .in_memory_processes import InMemoryProcess, InMemoryProcesses


@asynccontextmanager
async def open_acp_supervisor(
    *agents: AcpAgent,
    settings: Settings | None = None,
    processes: InMemoryProcesses | None = None,
) -> AsyncIterator[tuple[Supervisor, InMemoryProcesses]]:
    """Open a supervisor with these agents; yield it and their processes."""
    processes = processes or InMemoryProcesses()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor.runtime, "open_processes", lambda: nullcontext(processes))
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
    """Open an idle session of a scripted agent with these flags; yield it and the processes."""
    agent = scripted_process("agent", flags)
    async with open_acp_supervisor(agent, settings=settings, processes=processes) as (sup, them):
        yield await sup.create("agent"), them


# How the agent can resume its own conversation, None if it cannot.
resume_flags = pytest.mark.parametrize("way", ["--load", "--resume", None])


def flags_of(way: str | None) -> list[str]:
    return [] if way is None else [way]


def prompts(process: InMemoryProcess) -> list[list[str]]:
    """Return the texts of each prompt that the agent received."""
    said = [json.loads(line) for side, line in process.wire if side == "client"]
    sent = [message["params"] for message in said if message.get("method") == "session/prompt"]
    return [[block["text"] for block in params["prompt"]] for params in sent]
