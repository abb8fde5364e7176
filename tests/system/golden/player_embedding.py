"""The embedding API, in the process of the test."""

from __future__ import annotations

import pytest

from supervisor import Session, Supervisor, SupervisorError, ToolCall

from .scenario import AGENT, INTERRUPT_REASON


class EmbeddingPlayer:
    """A program that has opened a supervisor."""

    def __init__(self, sup: Supervisor) -> None:
        self.session = ""
        self._sup = sup

    @property
    def _handle(self) -> Session:
        return self._sup.session(self.session)

    async def create(self, folder: str) -> None:
        self.session = (await self._sup.create(AGENT, workspace=folder)).id

    async def prompt(self, text: str) -> str:
        return (await self._handle.prompt(text)).text

    async def send(self, text: str) -> None:
        await self._handle.send(text)

    async def steer(self, text: str) -> None:
        await self._handle.steer(text)

    async def allow(self) -> None:
        (request,) = await self._sup.permissions()
        await self._sup.answer(request.id, "allow_once")

    async def interrupt_call(self) -> None:
        (call,) = [
            record.body["call_id"]
            for turn in await self._handle.history()
            for record in turn.records
            if record.kind == "tool_call"
        ]
        report = await self._handle.interrupt(ToolCall(call), reason=INTERRUPT_REASON)
        assert (report.matched, report.stopped) == (1, 1)

    async def spawn(self, text: str) -> None:
        await self._handle.spawn(AGENT, text)

    async def limit_tokens(self, tokens: int) -> None:
        await self._handle.set(limits={"tokens": tokens})

    async def refused(self, text: str) -> str:
        with pytest.raises(SupervisorError) as caught:
            await self._handle.send(text)
        return caught.value.code

    async def stop(self) -> None:
        await self._handle.stop()

    async def resume(self) -> None:
        await self._handle.resume()
