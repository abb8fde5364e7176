"""Turns of an agent in a process of its own, over our peer and over the SDK's.

One and the same agent, written with the official SDK, says each word of its prompt back. A turn is
`session/prompt`, the updates that come of it and the answer, one turn after the other. Both clients
count the updates and do nothing else with them. What each gets differs: ours gets plain data in the
order in which it came, the SDK's a model, in a task of its own.

- a turn of one word: mostly the way there and back, and the agent's own work;
- a turn of 200 words: the agent writes as fast as it can, and mostly reading is measured;
- for both and for information, what the client itself has used of a core.

Starting the agent, `initialize` and `session/new` are not counted.
"""

import asyncio
import contextlib
import math
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from supervisor.drivers.process.pipes import PipeReader, PipeWriter
from supervisor.json_rpc.rpc_connection import RpcConnection
from supervisor.json_rpc.rpc_handlers import RpcHandlers
from tests.bench._row import Row, Sample, at_least, unless_installed

AGENT = Path(__file__).parents[1] / "drivers" / "acp" / "echo_agent.py"
COMMAND = (sys.executable, "-P", str(AGENT))
CWD = str(AGENT.parent)
SHORT, SHORT_TURNS = 1, 1_000
LONG, LONG_TURNS = 200, 30
US = 1e6
INPUT_SECONDS = 10.0

Prompt = Callable[[], Awaitable[object]]


@frozen
class Timing:
    """What one turn has taken, of the clock and of the client's core."""

    wall_seconds: float
    cpu_seconds: float


def turns_per_second(timing: Timing) -> float:
    return 1 / timing.wall_seconds


def cpu_us_per_turn(timing: Timing) -> float:
    return timing.cpu_seconds * US


class Counter:
    """Counts the updates of either client."""

    def __init__(self) -> None:
        self.updates = 0

    async def heard(self, _params: object) -> None:
        self.updates += 1

    async def session_update(self, **_: object) -> None:
        self.updates += 1

    def on_connect(self, conn: object) -> None:
        """Ignore the notice that the SDK sends to its clients."""


async def timing_of(prompt: Prompt, counter: Counter, *, turns: int) -> Timing:
    for _ in range(max(2, turns // 10)):
        await prompt()  # warm-up, not counted
    counter.updates = 0
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(turns):
        await prompt()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Timing(wall / turns, cpu / turns)


def text_of(words: int) -> str:
    return " ".join(["word"] * words)


async def our_ends(process: trio.Process) -> tuple[PipeWriter, PipeReader]:
    """Return the pipes as our agent processes have them, instead of trio's."""
    assert isinstance(process.stdin, trio.lowlevel.FdStream)
    assert isinstance(process.stdout, trio.lowlevel.FdStream)
    descriptors = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
    # First: as they close, trio's ends make the pipes blocking again, for ours too.
    await process.stdin.aclose()
    await process.stdout.aclose()
    return PipeWriter(descriptors[0]), PipeReader(descriptors[1])


def ours(words: int, turns: int, figure: Callable[[Timing], float]) -> Sample:
    async def main() -> float:
        counter = Counter()
        process = await trio.lowlevel.open_process(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        inlet, outlet = await our_ends(process)
        connection = RpcConnection(
            partial(inlet.send, within_seconds=INPUT_SECONDS), outlet.receive, name="echo"
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                connection.serve, RpcHandlers(notifications={"session/update": counter.heard})
            )
            call = partial(connection.call, timeout_seconds=math.inf)
            await call("initialize", {"protocolVersion": 1})
            session = await call("session/new", {"cwd": CWD, "mcpServers": []})
            params = {
                "sessionId": session["sessionId"],
                "prompt": [{"type": "text", "text": text_of(words)}],
            }
            timing = await timing_of(lambda: call("session/prompt", params), counter, turns=turns)
            assert counter.updates == words * turns
            inlet.close()
        outlet.close()
        await process.wait()
        return figure(timing)

    return lambda: trio.run(main)


def the_sdk(words: int, turns: int, figure: Callable[[Timing], float]) -> Sample:
    async def main() -> float:
        import acp

        counter: Any = Counter()
        timing: Timing | None = None
        # The SDK ends an agent that has just ended by itself, and stumbles over that.
        with contextlib.suppress(ProcessLookupError):
            async with acp.spawn_agent_process(counter, *COMMAND) as (agent, _process):
                await agent.initialize(protocol_version=1)
                session = await agent.new_session(cwd=CWD, mcp_servers=[])
                blocks: list[Any] = [acp.text_block(text_of(words))]
                timing = await timing_of(
                    lambda: agent.prompt(session_id=session.session_id, prompt=blocks),
                    counter,
                    turns=turns,
                )
        assert timing is not None
        return figure(timing)

    return lambda: asyncio.run(main())


def rows(what: str, words: int, turns: int) -> tuple[Row, Row]:
    against, obstacle = "the SDK's own client", unless_installed("acp")
    return (
        Row(
            name=f"turns of an SDK agent, {what}",
            against=against,
            ours=ours(words, turns, turns_per_second),
            peer=the_sdk(words, turns, turns_per_second),
            unit="turns/s",
            reach=at_least(0.9),
            obstacle=obstacle,
        ),
        Row(
            name=f"CPU of the client for a turn, {what}",
            against=against,
            ours=ours(words, turns, cpu_us_per_turn),
            peer=the_sdk(words, turns, cpu_us_per_turn),
            unit="us",
            obstacle=obstacle,
        ),
    )


ROWS = (*rows("one word", SHORT, SHORT_TURNS), *rows("200 words", LONG, LONG_TURNS))
