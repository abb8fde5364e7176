"""An editor through `understudy acp`, with HTTP for what its protocol does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tests.support.acp_editor import Editor, Refused

from .player_http import HttpPlayer
from .scenario import Word

# Steps that are played through HTTP, and why.
BY_HTTP: Final[Mapping[Word, str]] = {
    "interrupt_call": "version 1 of the protocol ends whole turns only",
    "spawn": "a client of the protocol cannot start a session below another one",
    "limit_tokens": "/understudy:budget shows the budgets, and nothing changes them",
    "resume": "a prompt starts a stopped session again, but never one that a budget has stopped",
}


class AcpPlayer:
    """An editor that has started the command, and a program that sends requests.

    Prompts that are not waited for are answered at the end of their turns: `finish` checks them.
    """

    def __init__(self, editor: Editor, http: HttpPlayer) -> None:
        self.session = ""
        self.by_http: set[Word] = set()
        self._editor = editor
        self._http = http
        self._open: list[int] = []

    async def create(self, folder: str) -> None:
        self.session = self._http.session = await self._editor.new(folder)

    async def prompt(self, text: str) -> str:
        before = len(self._editor.text())
        answer = await self._editor.prompt(self.session, text)
        assert answer == {"stopReason": "end_turn"}
        return self._editor.text()[before:]

    async def send(self, text: str) -> None:
        self._open.append(await self._editor.begin(self.session, text))

    async def steer(self, text: str) -> None:
        blocks = [{"type": "text", "text": text}]
        request = await self._editor.ask("_session/steering", sessionId=self.session, prompt=blocks)
        self._open.append(request)

    async def allow(self) -> None:
        await self._editor.allow(await self._editor.asked_for("session/request_permission"))

    async def refused(self, text: str) -> str:
        with pytest.raises(Refused) as caught:
            await self._editor.prompt(self.session, text)
        code: str = caught.value.data["code"]
        return code

    async def stop(self) -> None:
        """Close the session, and open it again from the history."""
        await self._editor.call("session/close", sessionId=self.session)
        await self._editor.call("session/resume", sessionId=self.session, cwd="/", mcpServers=[])

    async def finish(self) -> None:
        """Check that each request was answered as its turn or its input ended."""
        assert [await self._editor.answer_to(one) for one in self._open] == [
            {"stopReason": "end_turn"},
            {"stopReason": "end_turn"},
            {"outcome": "injected"},
            {"stopReason": "max_tokens"},
        ]
        assert self.by_http == set(BY_HTTP)

    # By HTTP ------------------------------------------------------------------------------

    async def interrupt_call(self) -> None:
        self.by_http.add("interrupt_call")
        await self._http.interrupt_call()

    async def spawn(self, text: str) -> None:
        self.by_http.add("spawn")
        await self._http.spawn(text)

    async def limit_tokens(self, tokens: int) -> None:
        self.by_http.add("limit_tokens")
        await self._http.limit_tokens(tokens)

    async def resume(self) -> None:
        self.by_http.add("resume")
        await self._http.resume()
