"""An assistant through `understudy mcp`, with the tools of the scope `all`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import trio

from supervisor.json_rpc.lines import LineSplitter
from tests.support.acp_editor_process import environ_of
from tests.support.daemon_in_process import Home
from tests.support.mcp_messages import initialize, request

from .scenario import AGENT, INTERRUPT_REASON


class McpPlayer:
    """An assistant that calls tools, one after the other."""

    def __init__(self, stdin: trio.abc.SendStream, stdout: trio.abc.ReceiveStream) -> None:
        self.session = ""
        self._stdin = stdin
        self._stdout = stdout
        self._lines = LineSplitter()

    async def start(self) -> None:
        answer = await self._ask(initialize())
        assert "tools" in answer["capabilities"]

    async def create(self, folder: str) -> None:
        self.session = (await self._call("create", agent=AGENT, workspace=folder))["session"]

    async def prompt(self, text: str) -> str:
        await self.send(text)
        news = await self._call("wait", sessions=[self.session], seconds=20)
        (row,) = news["sessions"]
        found: str = row["text"]
        return found

    async def send(self, text: str) -> None:
        await self._call("send", session=self.session, text=text)

    async def steer(self, text: str) -> None:
        await self._call("send", session=self.session, text=text, when_busy="steer")

    async def allow(self) -> None:
        (pending,) = (await self._call("inbox"))["requests"]
        await self._call("answer", request=pending["request"], decision="allow_once")

    async def interrupt_call(self) -> None:
        told = await self._call("read", session=self.session, what="tools")
        call = re.findall(r"\bcall_\w+", told["text"])
        report = await self._call(
            "interrupt",
            session=self.session,
            scope="tool_call",
            ids=call,
            reason=INTERRUPT_REASON,
        )
        assert (report["matched"], report["stopped"]) == (1, 1)

    async def spawn(self, text: str) -> None:
        await self._call("spawn", parent=self.session, agent=AGENT, text=text)

    async def limit_tokens(self, tokens: int) -> None:
        await self._call("set_limits", session=self.session, tokens=tokens)

    async def refused(self, text: str) -> str:
        answer = await self._tool("send", session=self.session, text=text)
        assert answer["isError"]
        code: str = answer["structuredContent"]["code"]
        return code

    async def stop(self) -> None:
        await self._call("stop", session=self.session)

    async def resume(self) -> None:
        await self._call("resume", session=self.session)

    # Messages -----------------------------------------------------------------------------

    async def _call(self, name: str, **arguments: object) -> Any:  # noqa: ANN401 - any JSON value
        """Call a tool that is not refused, and return what it answers."""
        answer = await self._tool(name, **arguments)
        assert not answer.get("isError"), answer
        return answer["structuredContent"]

    async def _tool(self, name: str, **arguments: object) -> Any:  # noqa: ANN401 - any JSON value
        return await self._ask(request("tools/call", {"name": name, "arguments": arguments}))

    async def _ask(self, message: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
        await self._stdin.send_all(orjson.dumps(message) + b"\n")
        while True:
            data = bytes(await self._stdout.receive_some())
            assert data, "the command has ended"
            for line in self._lines.feed(data):
                assert isinstance(line, bytes)
                return orjson.loads(line)["result"]


@asynccontextmanager
async def mcp_player(home: Home) -> AsyncIterator[McpPlayer]:
    """Start the command, and yield a player that speaks with it; it leaves with the block."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "supervisor.cli", "mcp", "--no-start"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ_of(home),
        cwd=home.folder,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with process.stdout:
            player = McpPlayer(process.stdin, process.stdout)
            await player.start()
            yield player
            await process.stdin.aclose()
            await process.wait()
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.stdin.aclose()
            await process.wait()
