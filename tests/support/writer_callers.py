"""A store that records its commits, and callers of the writer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import trio

from actors import Ask, Ref
from actors.testing import settle
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Stored, Write
from supervisor.store.writer_messages import Commit
from tests.support.store_samples import creation_write

BEFORE = SessionId("s_before")


class RecordingStore(MemoryStore):
    """A store that records the calls of the writer, and can be slow or failing."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Write]] = []
        self.deeds: list[str] = []
        self.problems: list[Exception] = []
        self.may_commit = trio.Event()
        self.may_commit.set()

    def hold(self) -> None:
        self.may_commit = trio.Event()

    def release(self) -> None:
        self.may_commit.set()

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self.batches.append(list(writes))
        await self.may_commit.wait()
        self._raise_if_out_of_order()
        self.deeds.append(f"commit {len(writes)}")
        return await super().commit(writes)

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        self._raise_if_out_of_order()
        self.deeds.append(f"claim {' '.join(session_ids)}")
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        self.deeds.append(f"delete {session_id}")
        await super().delete(session_id)

    def _raise_if_out_of_order(self) -> None:
        if self.problems:
            raise self.problems.pop(0)

    @property
    def batch_sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


class Callers:
    """Callers of the writer, each in its own task, and the answers they got."""

    def __init__(self, writer: Ref, nursery: trio.Nursery) -> None:
        self.writer = writer
        self.nursery = nursery
        self.told: list[tuple[str, object]] = []

    def ask(self, question: Ask[Any], name: str | None = None, *, urgent: bool = False) -> None:
        self.nursery.start_soon(self._ask, question, name or str(len(self.told)), urgent)

    async def in_turn(self, recording: RecordingStore, *questions: Ask[Any]) -> None:
        """Put requests into the mailbox in order, while the writer waits for a commit."""
        recording.hold()
        self.ask(Commit(creation_write(BEFORE)), "before")
        await settle()
        for number, question in enumerate(questions):
            self.ask(question, str(number))
            await settle()

    async def _ask(self, question: Ask[Any], name: str, urgent: bool) -> None:  # noqa: FBT001
        try:
            answer = await self.writer.ask(question, timeout_seconds=math.inf, urgent=urgent)
        except Exception as error:  # noqa: BLE001 - any error is the answer
            self.told.append((name, error))
        else:
            self.told.append((name, answer))

    def answer(self, name: str) -> object:
        (answer,) = [answer for asker, answer in self.told if asker == name]
        return answer

    @property
    def answers(self) -> list[object]:
        return [answer for _, answer in self.told]


def names(count: int) -> list[SessionId]:
    return [SessionId(f"s_{number:05}") for number in range(count)]


async def stored_names(store: MemoryStore) -> list[SessionId]:
    return [stored.row.id async for stored in store.rows()]
