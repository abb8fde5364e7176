"""A store whose calls fail as the test says, and a client of its writer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import trio

from actors import Ask, Ref
from actors.testing import settle
from supervisor.core.errors import StoreDegraded, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.memory import MemoryStore
from supervisor.store.pending import PendingWrite, StoreHealth, StoreState
from supervisor.store.port import ProcessEntry, Stored, Write
from supervisor.store.writer import MAX_RETRY_SECONDS, retry_until_healthy
from supervisor.store.writer_messages import Commit

Mode: TypeAlias = Literal["healthy", "failing", "broken", "broken late"]


class FaultyStore(MemoryStore):
    """A store that fails on request and records the time of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.mode: Mode = "healthy"
        # Number of crashes before it is healthy again.
        self.breaks_left = 0
        self.looks: list[tuple[float, str]] = []
        self.may_answer = trio.Event()
        self.may_answer.set()

    async def _record_call(self, what: str) -> None:
        self.looks.append((trio.current_time(), what))
        await self.may_answer.wait()
        if self.mode == "failing":
            raise StoreDegraded("the disk is full", hint="free some space")
        if self.mode == "broken":
            self._break()

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        await self._record_call("commit")
        answers = await super().commit(writes)
        if self.mode == "broken late":
            self._break()
        return answers

    def _break(self) -> None:
        self.breaks_left -= 1
        if not self.breaks_left:
            self.mode = "healthy"
        raise OSError("the disk is gone")

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        await self._record_call("claim")
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        await self._record_call("delete")
        await super().delete(session_id)

    async def record_process(self, process: ProcessEntry) -> None:
        await self._record_call("note")
        await super().record_process(process)

    async def forget_process(self, process: ProcessEntry) -> None:
        await self._record_call("forget")
        await super().forget_process(process)

    async def probe(self) -> None:
        await self._record_call("probe")


class WriterClient:
    """A client of the writer that retries a degraded store as the supervisor does."""

    def __init__(self, writer: Ref, health: StoreHealth, nursery: trio.Nursery) -> None:
        self.writer = writer
        self.health = health
        self.nursery = nursery
        self.told: list[StoreState] = []
        health.set_on_change(self._changed)

    def _changed(self, state: StoreState) -> None:
        self.told.append(state)
        if state.degraded:
            self.nursery.start_soon(retry_until_healthy, self.writer, self.health)

    async def ask(self, question: Ask[Any]) -> Any:  # noqa: ANN401 - the type of the request
        return await self.writer.ask(question, timeout_seconds=math.inf)

    async def commit(self, write: Write) -> Any:  # noqa: ANN401 - any result
        return await self.ask(Commit(write))

    async def hold(self, *writes: Write) -> list[PendingWrite]:
        """Request these writes at once and in order from a failing store; return them pending."""
        pending = [await self.commit(write) for write in writes]
        assert all(isinstance(one, PendingWrite) for one in pending)
        return pending


async def recover(store: FaultyStore) -> None:
    store.mode = "healthy"
    await trio.sleep(MAX_RETRY_SECONDS)
    await settle()
