"""A memory store that fails and recovers when the test says so, and checks of its contents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import trio

from actors.testing import settle
from supervisor import Session, StoreDegraded, Supervisor, SupervisorError
from supervisor.core.fold import replay
from supervisor.core.ids import SessionId
from supervisor.store.memory import MemoryStore
from supervisor.store.pending import PendingWrite
from supervisor.store.port import ProcessEntry, Stored, Write
from supervisor.store.writer_messages import Commit

from .store_samples import differences

PROBLEM = "the store cannot be used: the disk is full"
HINT = "free some space; the store retries by itself"
# A degraded store is probed at least every 2 s, so a retry has happened by then.
RETRY_SECONDS = 2.1
MAX_FAILURES = 2_000


class FailingStore(MemoryStore):
    """A store whose writes raise `StoreDegraded` while it is failing; reads always work."""

    def __init__(self) -> None:
        super().__init__()
        self.is_failing = False
        # Value of the same field of the error: the store guarantees that nothing was written.
        self.is_surely_unwritten = False
        # Delay of a commit before it fails.
        self.fails_after_seconds = 0.0
        self._failures = 0
        # Virtual times of all attempted writes, failed ones included.
        self.attempts: list[float] = []
        # Commits before the store starts failing by itself; None for never.
        self.commits_left: int | None = None
        # Invariant: every record number of every session is here once, in commit order.
        self.written: list[tuple[SessionId, int]] = []

    def start_failing(self) -> None:
        """Fail from the next write on. The supervisor notices it only then."""
        self.is_failing = True

    async def recover(self) -> None:
        """Stop failing; return when the supervisor has noticed and written all pending writes."""
        self.is_failing, self.commits_left = False, None
        await trio.sleep(RETRY_SECONDS)
        await settle()

    def _raise_if_failing(self) -> None:
        self.attempts.append(trio.current_time())
        if self.is_failing:
            # Retries advance virtual time without end; the bound makes such a test fail.
            self._failures += 1
            assert self._failures < MAX_FAILURES, "a caller waits for the store without end"
            raise StoreDegraded(PROBLEM, hint=HINT, is_surely_unwritten=self.is_surely_unwritten)

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        if self.is_failing and self.fails_after_seconds:
            await trio.sleep(self.fails_after_seconds)
        self._raise_if_failing()
        answers = await super().commit(writes)
        if self.commits_left is not None:
            self.commits_left -= 1
            self.is_failing = self.commits_left <= 0
        return answers

    def _commit(self, write: Write) -> SupervisorError | None:
        refusal = super()._commit(write)
        part: Write | None = write if refusal is None else None
        while part is not None:
            self.written += [(part.session_id, record.seq) for record in part.records]
            part = part.linked_write
        return refusal

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        self._raise_if_failing()
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        self._raise_if_failing()
        await super().delete(session_id)

    async def record_process(self, process: ProcessEntry) -> None:
        self._raise_if_failing()
        await super().record_process(process)

    async def forget_process(self, process: ProcessEntry) -> None:
        self._raise_if_failing()
        await super().forget_process(process)

    async def probe(self) -> None:
        self._raise_if_failing()
        await super().probe()


async def degrade(store: FailingStore, sup: Supervisor) -> None:
    """Make the store fail, and degrade the supervisor by a write that is refused later."""
    store.start_failing()
    write = Write(SessionId("s_unknown"), 0, ())
    answer = await sup._services.writer.ask(Commit(write), timeout_seconds=1.0)
    assert isinstance(answer, PendingWrite)


async def check_stored(store: FailingStore, *sessions: Session) -> None:
    """Check that records have no gaps or duplicates, and that the row equals their replay."""
    for session in sessions:
        stored = await store.read(session.id)
        records = await store.records(session.id)
        assert stored is not None
        assert [record.seq for record in records] == list(range(1, stored.last_seq + 1))
        mine = [seq for owner, seq in store.written if owner == session.id]
        assert mine == [record.seq for record in records]
        assert differences(replay(records), stored.row) == []


async def degrade_noticed(store: FailingStore, session: Session) -> None:
    await degrade(store, Supervisor(session._parts))


async def degrade_unnoticed(store: FailingStore, session: Session) -> None:
    store.start_failing()


Degradation: TypeAlias = Callable[[FailingStore, Session], Awaitable[None]]
DEGRADATIONS: tuple[Degradation, ...] = (degrade_noticed, degrade_unnoticed)
