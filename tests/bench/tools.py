"""Our tools for agents: the start of a bridge, a call over it, and how soon a wait is over.

The caller is a process in a containment of its own, as an agent is; the supervisor is in the
process of the benchmark, with its store in memory.

- start: the bridge answers one line that is no message, and ends with its input; the peer is an
  interpreter with the same flags and nothing to do;
- a call: `agents`, the median of many, one directly after the other, with a pause where a session
  would call more than 20 times a second. Over HTTP it is the same message, on one connection to the
  same socket;
- a wait: from before the agent of the child ends its turn until the answer is read. So the end of
  the turn, with its commit, is a part of it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

import supervisor
from supervisor.drivers.agent_tools import ToolsRequest
from supervisor.drivers.process.contained import open_processes
from supervisor.drivers.process.processes import Launch
from supervisor.mcp_server import bridge
from supervisor.mcp_server.hand_over import BRIDGE
from supervisor.runtime import open_with_tools
from tests.bench import tools_caller
from tests.bench._row import Row, at_most
from tests.support.process_programs import Lines, running

STARTS = 15
BURSTS = 3
CALLS_PER_BURST = 18
PAUSE_SECONDS = 1.0
WAITS = 20
UNDER_WAY_SECONDS = 0.1
NEWS_SECONDS = 0.020
CALLER = Launch((sys.executable, "-I", "-S", tools_caller.__file__), {})
BARE = [sys.executable, "-I", "-S"]


# The start ----------------------------------------------------------------------------------


def seconds_of(*command: str) -> float:
    environ = {bridge.SOCKET_VARIABLE: os.devnull, bridge.TOKEN_VARIABLE: "none"}

    def once() -> float:
        begun = time.perf_counter()
        subprocess.run(command, input=b"{\n", check=True, capture_output=True, env=environ)
        return time.perf_counter() - begun

    once()
    return statistics.median(once() for _ in range(STARTS))


# Calls --------------------------------------------------------------------------------------


class Caller:
    """The process that stands for the agent of a session."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def call(self, tool: str, **arguments: object) -> tuple[float, float, Any]:
        """Return how long the call took, when it was over, and what the tool has answered."""
        await self._lines.process.send(json.dumps([tool, arguments]).encode() + b"\n")
        took, ended, answer = json.loads(await self._lines.next())
        assert not answer["result"]["isError"], answer
        return took, ended, answer["result"]["structuredContent"]


@asynccontextmanager
async def caller(
    way: str, *agents: supervisor.AgentKind
) -> AsyncIterator[tuple[supervisor.Session, Caller]]:
    """Yield a session whose turn goes on, and its caller."""
    settings = supervisor.Settings(exit_seconds=0.0)
    async with (
        open_with_tools(":memory:", agents=agents, settings=settings) as (sup, tools),
        open_processes() as processes,
        running(processes, CALLER) as lines,
    ):
        session = await sup.create("scripted")
        await session.send("sleep 1000")
        epoch = sup.introspect().epoch_of(session.id)
        assert epoch is not None
        wanted = ToolsRequest(
            session_id=session.id, epoch=epoch, process=lines.process.identity, transport="stdio"
        )
        env = (await tools.hand_over.server_for(wanted))["env"]
        given = [way, env[bridge.SOCKET_VARIABLE], env[bridge.TOKEN_VARIABLE], str(BRIDGE)]
        await lines.process.send(json.dumps(given).encode() + b"\n")
        made = Caller(lines)
        await made.call("agents")  # imports the server
        yield session, made


def seconds_per_call(way: str) -> float:
    async def main() -> float:
        took = []
        async with caller(way) as (_, agent):
            for _ in range(BURSTS):
                await trio.sleep(PAUSE_SECONDS)
                took += [(await agent.call("agents"))[0] for _ in range(CALLS_PER_BURST)]
        return statistics.median(took)

    return trio.run(main)


# Waits --------------------------------------------------------------------------------------


def seconds_to_news() -> float:
    async def main() -> float:
        ends = trio.Event()

        @supervisor.agent("child")
        async def child(turn: supervisor.Turn) -> str:
            await ends.wait()
            return "done"

        took: list[float] = []
        ended_at: list[float] = []
        async with caller("bridge", child) as (_, agent):
            _, _, spawned = await agent.call("spawn", agent="child", text="one", on_end="tell")
            below, cursor = spawned["session"], None

            async def wait() -> None:
                nonlocal cursor
                after: dict[str, Any] = {} if cursor is None else {"after": cursor}
                _, ended, answer = await agent.call("wait", sessions=[below], seconds=20, **after)
                assert answer["reason"] == "news", answer
                cursor = answer["cursor"]
                ended_at.append(ended)

            for _ in range(WAITS):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(wait)
                    await trio.sleep(UNDER_WAY_SECONDS)
                    begun = time.perf_counter()
                    ends.set()
                took.append(ended_at[-1] - begun)
                ends = trio.Event()
                await agent.call("send", session=below, text="one more")
        return statistics.median(took)

    return trio.run(main)


ROWS = (
    Row(
        name="start of a bridge",
        against="python -I -S -c pass",
        ours=partial(seconds_of, *BARE, str(BRIDGE)),
        peer=partial(seconds_of, *BARE, "-c", "pass"),
        unit="s",
        reach=at_most(3),
    ),
    Row(
        name="a tool call over the bridge",
        against="the same over HTTP",
        ours=partial(seconds_per_call, "bridge"),
        peer=partial(seconds_per_call, "http"),
        unit="s",
        reach=at_most(2),
        collector="running",
    ),
    Row(
        name="end of a child's turn to the answer of wait over the bridge, p50",
        against="20 ms",
        ours=seconds_to_news,
        peer=lambda: NEWS_SECONDS,
        unit="s",
        reach=at_most(1),
        collector="running",
    ),
)
