"""Our JSON-RPC peer and the official SDK in a real process understand each other.

In real time, for a process takes its own; nothing here waits for time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import trio

from supervisor.json_rpc.lines import LineSplitter
from supervisor.json_rpc.rpc_connection import RpcConnection
from supervisor.json_rpc.rpc_handlers import RpcHandlers
from supervisor.json_rpc.rpc_messages import RpcError
from tests.support.acp_schema import Conversation, Side

AGENT = Path(__file__).parents[1] / "support" / "sdk_echo_agent.py"
PATIENCE_SECONDS = 60.0


class Witness:
    """A recorder of both sides that checks every line against the schema."""

    def __init__(self) -> None:
        self.talk = Conversation()
        self._lines: dict[Side, LineSplitter] = {"client": LineSplitter(), "agent": LineSplitter()}

    def hear(self, side: Side, data: bytes) -> None:
        for line in self._lines[side].feed(data):
            assert isinstance(line, bytes)
            self.talk.says(side, orjson.loads(line))


@asynccontextmanager
async def sdk_agent(handlers: RpcHandlers, witness: Witness) -> AsyncIterator[RpcConnection]:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-P", str(AGENT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def send(data: bytes) -> None:
        witness.hear("client", data)
        await stdin.send_all(data)

    async def receive() -> bytes:
        data = bytes(await stdout.receive_some())
        witness.hear("agent", data)
        return data

    connection = RpcConnection(send, receive, name="echo")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, handlers)
        yield connection
        await stdin.aclose()
    await process.wait()
    await stdout.aclose()


def test_an_agent_of_the_official_sdk_answers_calls() -> None:
    heard: list[Any] = []

    async def main() -> None:
        async def update(params: Any) -> None:  # noqa: ANN401 - whatever the agent sent
            heard.append(params["update"]["content"]["text"])

        witness = Witness()
        handlers = RpcHandlers(notifications={"session/update": update})
        with trio.fail_after(PATIENCE_SECONDS):
            async with sdk_agent(handlers, witness) as connection:
                call = partial(connection.call, timeout_seconds=PATIENCE_SECONDS)
                await call("initialize", {"protocolVersion": 1})
                session = await call("session/new", {"cwd": "/home/ada", "mcpServers": []})
                text = {"type": "text", "text": " ".join(map(str, range(100)))}
                answer = await call(
                    "session/prompt", {"sessionId": session["sessionId"], "prompt": [text]}
                )
                heard.append(answer["stopReason"])
                try:
                    await call("_unheard/of", {})
                except RpcError as error:
                    heard.append(error.code)
        assert witness.talk.unanswered == []

    trio.run(main)

    assert heard == [*map(str, range(100)), "end_turn", -32601]
