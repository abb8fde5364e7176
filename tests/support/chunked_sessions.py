"""Sessions that are inserted and purged in chunks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from supervisor.core.errors import StoreDegraded, SupervisorError
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import InputId, SessionId
from supervisor.core.records import Record
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Store, Unfinished, Write
from tests.support.store_samples import (
    ONE,
    creation_write,
    receipt,
)

COUNT = 25
INPUT = InputId("in_1")
LARGE = 7  # records in a chunk


def text(session_id: SessionId, seq: int) -> Record:
    body = {"text": f"word{seq} common", "part": None}
    return Record(session_id, seq, 2.0, None, "user_text", body)


def large(session_id: SessionId = ONE, count: int = COUNT) -> Write:
    """Return the first write of a session with `count` records."""
    made = creation_write(session_id)
    said = (text(session_id, seq) for seq in range(2, count))
    body = {"input_id": INPUT, "text": "x", "when_busy": "queue"}
    accepted = Record(session_id, count, 2.0, None, "input_accepted", body)
    return made.changed(records=(*made.records, *said, accepted), stored_reply=receipt(session_id))


async def visible_data(store: Store, session_id: SessionId = ONE) -> list[object]:
    """Return everything that a reader can see of the session."""
    seen: list[object] = [
        *[one for one in await store.startup_rows() if session_id in str(one)],
        *[one async for one in store.rows() if one.row.id == session_id],
        *await store.records(session_id),
        *await store.raw_records(session_id),
        *await store.records_of_input(session_id, INPUT),
        *[one for _, one in await store.all_records() if one.session_id == session_id],
        *[
            one
            for one in await store.records_of_kinds(["user_text"])
            if one.session_id == session_id
        ],
        *[one for one in await store.search("common") if one.session_id == session_id],
        *[name for name in await store.sizes() if name == session_id],
    ]
    found = (await store.read(session_id), await store.stored_reply(session_id, "key"))
    return seen + [one for one in found if one is not None]


class RecordingStore(MemoryStore):
    """A store that records the calls of the writer and purges in three chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.is_ill = False
        self.left = 0
        # Called during a chunk.
        self.meanwhile: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    def _note(self, deed: str) -> None:
        if self.is_ill:
            raise StoreDegraded("the disk is full", hint="free some space")
        self.calls.append(deed)

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self._note(f"commit {' '.join(write.session_id for write in writes)}")
        return await super().commit(writes)

    async def insert_chunk(self, session_id: SessionId, records: Sequence[AnyRecord]) -> None:
        self._note(f"insert_part {len(records)}")
        await self.meanwhile()
        await super().insert_chunk(session_id, records)

    async def delete(self, session_id: SessionId) -> None:
        self._note(f"delete {session_id}")
        self.left = 3
        await super().delete(session_id)

    async def purge_deleted(self) -> bool:
        self._note("clear")
        await self.meanwhile()
        self.left = max(0, self.left - 1)
        await super().purge_deleted()
        return self.left > 0

    async def probe(self) -> None:
        self._note("probe")
        await super().probe()

    async def optimize_index(self) -> bool:
        self._note("tidy")
        await self.meanwhile()
        return self.calls.count("tidy") % 3 != 0

    async def find_unfinished(self) -> Unfinished:
        await super().find_unfinished()
        return Unfinished(needs_purge=self.left > 0, needs_optimize=False)
