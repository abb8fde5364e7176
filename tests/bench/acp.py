"""Turns of an agent in a process of its own, over our peer and over the SDK's.

One and the same agent, written with the official SDK, says each word of its prompt back. Measured
is the client: a turn is `session/prompt`, the updates that come of it and the answer, one turn
after the other. Both count the updates and do nothing else with them. What each gets differs: ours
is plain data in the order in which it came, the SDK's is a model, in a task of its own.

- a turn of one word: mostly the way there and back, and the agent's own work;
- a turn of 200 words: the agent writes as fast as it can, and mostly reading is measured.

Starting the agent, `initialize` and `session/new` are not counted.
"""

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio

from supervisor.drivers.acp.connection import Connection
from supervisor.drivers.acp.serving import Handlers
from tests.bench._row import Row, Sample, at_least, unless_installed

AGENT = Path(__file__).parents[1] / "drivers" / "acp" / "echo_agent.py"
COMMAND = (sys.executable, "-P", str(AGENT))
CWD = str(AGENT.parent)
UNIT = "turns/s"
SHORT, SHORT_TURNS = 1, 400
LONG, LONG_TURNS = 200, 10

Prompt = Callable[[], Awaitable[object]]


class Counter:
    """Counts the updates of either client."""

    def __init__(self) -> None:
        self.updates = 0

    async def heard(self, _params: object) -> None:
        self.updates += 1

    async def session_update(self, **_: object) -> None:
        self.updates += 1

    def on_connect(self, conn: object) -> None:
        """The SDK's clients are told; this one has nothing to say."""


async def turns_per_second(prompt: Prompt, counter: Counter, *, words: int, turns: int) -> float:
    for _ in range(max(2, turns // 10)):
        await prompt()  # warm-up, not counted
    counter.updates = 0
    begun = time.perf_counter()
    for _ in range(turns):
        await prompt()
    seconds = time.perf_counter() - begun
    while counter.updates < words * turns:
        await asyncio.sleep(0)  # only the SDK may still be at it, and it is not counted
    return turns / seconds


def text_of(words: int) -> str:
    return " ".join(["word"] * words)


def ours(words: int, turns: int) -> Sample:
    async def main() -> float:
        counter = Counter()
        process = await trio.lowlevel.open_process(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        connection = Connection(
            process.stdin.send_all,
            partial(process.stdout.receive_some, 65_536),  # type: ignore[arg-type]
            name="echo",
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                connection.serve, Handlers(notifications={"session/update": counter.heard})
            )
            call = partial(connection.call, timeout_seconds=math.inf)
            await call("initialize", {"protocolVersion": 1})
            session = await call("session/new", {"cwd": CWD, "mcpServers": []})
            params = {
                "sessionId": session["sessionId"],
                "prompt": [{"type": "text", "text": text_of(words)}],
            }
            rate = await turns_per_second(
                lambda: call("session/prompt", params), counter, words=words, turns=turns
            )
            assert counter.updates == words * turns
            await process.stdin.aclose()
        await process.wait()
        return rate

    return lambda: trio.run(main)


def the_sdk(words: int, turns: int) -> Sample:
    async def main() -> float:
        import acp

        counter: Any = Counter()
        async with acp.spawn_agent_process(counter, *COMMAND) as (agent, _process):
            await agent.initialize(protocol_version=1)
            session = await agent.new_session(cwd=CWD, mcp_servers=[])
            blocks = [acp.text_block(text_of(words))]
            return await turns_per_second(
                lambda: agent.prompt(session_id=session.session_id, prompt=blocks),
                counter,
                words=words,
                turns=turns,
            )

    return lambda: asyncio.run(main())


def row(name: str, words: int, turns: int) -> Row:
    return Row(
        name=name,
        against="the SDK's own client",
        ours=ours(words, turns),
        peer=the_sdk(words, turns),
        unit=UNIT,
        reach=at_least(0.9),
        obstacle=unless_installed("acp"),
    )


ROWS = (
    row("turn of an SDK agent, one word", SHORT, SHORT_TURNS),
    row("turn of an SDK agent, 200 words", LONG, LONG_TURNS),
)
