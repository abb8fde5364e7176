"""A store that falls ill and gets well when the test says so, and what it must have kept."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from actors.testing import settle
from supervisor import Session, StoreDegraded, Supervisor, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.records import replay
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Process, Stored, Write
from supervisor.store.writer import Commit
from supervisor.store.writer.held import Held
from tests.store.cast import differences

PROBLEM = "the store cannot be used: the disk is full"
HINT = "free some space; it goes on by itself"
# By then a degraded store was looked at again: it is at least every 2 s.
RETRY_SECONDS = 2.1
MOST_REFUSALS = 2_000


class FrailStore(MemoryStore):
    """Takes nothing while it is ill, and reads all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ill = False
        # Whether it says that nothing of what it was asked is written.
        self.is_certain = False
        # How long a commit takes before it fails.
        self.fails_after_seconds = 0.0
        self._refusals = 0
        # When somebody would have written, in virtual time, well or ill.
        self.tries: list[float] = []
        # Falls ill by itself after so many commits, if that is said.
        self.commits_left: int | None = None
        # Invariant: every number of every session is here once, in the order of the commits.
        self.written: list[tuple[SessionId, int]] = []

    def fall_ill(self) -> None:
        """Nobody knows before the next who writes."""
        self.is_ill = True

    async def get_well(self) -> None:
        """And wait until that is noticed, and all is written that had to wait."""
        self.is_ill, self.commits_left = False, None
        await trio.sleep(RETRY_SECONDS)
        await settle()

    def _refuse_if_ill(self) -> None:
        self.tries.append(trio.current_time())
        if self.is_ill:
            # Virtual time goes on for ever while somebody tries again: a test must not.
            self._refusals += 1
            assert self._refusals < MOST_REFUSALS, "somebody waits for the store for ever"
            raise StoreDegraded(PROBLEM, hint=HINT, is_certain=self.is_certain)

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        if self.is_ill and self.fails_after_seconds:
            await trio.sleep(self.fails_after_seconds)
        self._refuse_if_ill()
        answers = await super().commit(writes)
        if self.commits_left is not None:
            self.commits_left -= 1
            self.is_ill = self.commits_left <= 0
        return answers

    def _commit(self, write: Write) -> SupervisorError | None:
        refusal = super()._commit(write)
        part: Write | None = write if refusal is None else None
        while part is not None:
            self.written += [(part.session_id, record.seq) for record in part.records]
            part = part.also
        return refusal

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        self._refuse_if_ill()
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        self._refuse_if_ill()
        await super().delete(session_id)

    async def note_process(self, process: Process) -> None:
        self._refuse_if_ill()
        await super().note_process(process)

    async def forget_process(self, process: Process) -> None:
        self._refuse_if_ill()
        await super().forget_process(process)

    async def probe(self) -> None:
        self._refuse_if_ill()
        await super().probe()


async def make_known(store: FrailStore, sup: Supervisor) -> None:
    """Fall ill, and have it noticed: by a write that nobody needs, and that is refused later."""
    store.fall_ill()
    nothing = Write(SessionId("s_nobody"), 0, ())
    answer = await sup._house.writer.ask(Commit(nothing), timeout_seconds=1.0)
    assert isinstance(answer, Held)


async def check_kept(store: FrailStore, *sessions: Session) -> None:
    """Numbers without a gap, nothing twice, and the row is what the records make."""
    for session in sessions:
        stored = await store.read(session.id)
        records = await store.records(session.id)
        assert stored is not None
        assert [record.seq for record in records] == list(range(1, stored.last_seq + 1))
        mine = [seq for owner, seq in store.written if owner == session.id]
        assert mine == [record.seq for record in records]
        assert differences(replay(records), stored.row) == []
