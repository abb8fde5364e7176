"""The command line: one command for each step, as its `main` runs it."""

from __future__ import annotations

import contextlib
import io

import orjson
import trio

from supervisor.cli import main
from tests.support.cli_runner import Called

from .scenario import AGENT, INTERRUPT_REASON

REFUSED_BY_A_LIMIT = 4


class CliPlayer:
    """A person at a terminal, or a script.

    Commands run in a thread, because the daemon runs in this process too.
    """

    def __init__(self) -> None:
        self.session = ""

    async def create(self, folder: str) -> None:
        self.session = (await self._run("new", AGENT, "--workspace", folder)).strip()

    async def prompt(self, text: str) -> str:
        return (await self._run("send", self.session, text, "--wait")).rstrip("\n")

    async def send(self, text: str) -> None:
        await self._run("send", self.session, text)

    async def steer(self, text: str) -> None:
        await self._run("steer", self.session, text)

    async def allow(self) -> None:
        await self._run("answer", self.session, "yes")

    async def interrupt_call(self) -> None:
        line = await self._run("log", self.session, "--kind", "tool_call", "--json")
        call = orjson.loads(line)["body"]["call_id"]
        await self._run("interrupt", self.session, "--call", call, "--reason", INTERRUPT_REASON)

    async def spawn(self, text: str) -> None:
        await self._run("spawn", self.session, AGENT, text)

    async def limit_tokens(self, tokens: int) -> None:
        await self._run("set", self.session, "--tokens", str(tokens))

    async def refused(self, text: str) -> str:
        called = await self._call("send", self.session, text, "--json")
        assert called.code == REFUSED_BY_A_LIMIT
        code: str = orjson.loads(called.err)["error"]["code"]
        return code

    async def stop(self) -> None:
        await self._run("stop", self.session)

    async def resume(self) -> None:
        await self._run("resume", self.session)

    async def _run(self, *words: str) -> str:
        called = await self._call(*words)
        assert called.code == 0, called.err
        return called.out

    async def _call(self, *words: str) -> Called:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = await trio.to_thread.run_sync(main, list(words))
        return Called(code, out.getvalue(), err.getvalue())
