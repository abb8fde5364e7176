"""Work that is too large for one commit, done by the writer in chunks with other writes in between.

Rule 1: one chunk at a time; after each, the writer handles all messages that wait by then.
Rule 2: a request is answered when all its chunks are done.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import attrs

from actors import Later
from supervisor.core.errors import StoreDegraded
from supervisor.core.ids import SessionId
from supervisor.store.port import Store, Write

# Limits of one chunk: about 30 ms, most of it for the full-text index.
CHUNK_RECORDS: Final = 250
_CHUNK_CHARS: Final = 100_000


def needs_chunks(write: Write) -> bool:
    """Return True if this first write of a session would delay other writes for too long."""
    return _chunk_end(write, 0) < len(write.records)


@attrs.define(eq=False)
class ChunkedInsert:
    """A new session that is inserted in chunks, and the number of records inserted so far."""

    write: Write
    later: Later[Any]  # the answer to `writer.InsertChunked`
    inserted: int = 0


class ChunkQueue:
    """The chunked work that remains. The writer runs one chunk when no message waits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._inserts: deque[ChunkedInsert] = deque()
        # True while data of deleted sessions may be left; the answers are due when it is removed.
        self._purge_is_due = False
        self._waiting: list[Later[None]] = []
        self._optimize_is_due = False
        # Partly inserted sessions that will not be completed.
        self._to_discard: deque[SessionId] = deque()

    @property
    def has_work(self) -> bool:
        """True if a chunk is left to do."""
        waiting = self._inserts or self._to_discard
        is_due = self._purge_is_due or self._optimize_is_due or self._store.needs_checkpoint
        return is_due or bool(waiting)

    async def load_unfinished(self) -> None:
        """Take over the work that an earlier writer did not finish."""
        try:
            self._purge_is_due, self._optimize_is_due = await self._store.find_unfinished()
        except StoreDegraded:
            self._purge_is_due = True  # unknown: the next purge finds out

    def insert(self, write: Write) -> Later[Any]:
        """Queue a large new session; the writer commits its last chunk."""
        insert = ChunkedInsert(write, Later())
        self._inserts.append(insert)
        return insert.later

    def schedule_purge(self) -> None:
        """Record that a session was deleted and its data must be removed."""
        self._purge_is_due = True

    def purge(self) -> Later[None]:
        """Return a Later that is answered when the data of all deleted sessions is removed."""
        self.schedule_purge()
        later: Later[None] = Later()
        self._waiting.append(later)
        return later

    def schedule_optimize(self) -> None:
        """Record that deleted text must be removed from the index."""
        self._optimize_is_due = True

    async def run_one(self) -> ChunkedInsert | None:
        """Run one chunk; return an insert of which only the last chunk remains.

        Raise `StoreDegraded` if the store cannot write; the next call repeats the chunk.
        """
        if self._store.needs_checkpoint:
            # First, so that long work does not delay it.
            await self._store.run_checkpoint()
            return None
        if self._to_discard:
            await self._store.delete(self._to_discard[0])
            self._to_discard.popleft()
            self.schedule_purge()
            return None
        if self._inserts:
            return await self._insert_next(self._inserts[0])
        if self._purge_is_due:
            self._purge_is_due = await self._store.purge_deleted()
            if not self._purge_is_due:
                waiting, self._waiting = self._waiting, []
                for later in waiting:
                    later.answer(None)
        elif self._optimize_is_due:
            self._optimize_is_due = await self._store.optimize_index()
        return None

    async def _insert_next(self, insert: ChunkedInsert) -> ChunkedInsert | None:
        write, first = insert.write, insert.inserted
        last = _chunk_end(write, first)
        if last < len(write.records):
            try:
                await self._store.insert_chunk(write.session_id, write.records[first:last])
            except StoreDegraded:
                raise
            except Exception as error:  # noqa: BLE001 - raised in the caller
                self._inserts.popleft()
                insert.later.fail(error)
                self._to_discard.append(write.session_id)
                return None
            insert.inserted = last
            return None
        self._inserts.popleft()
        insert.write = write.changed(records=write.records[first:])
        return insert

    def discard(self, insert: ChunkedInsert) -> None:
        """Queue the removal of the inserted records after the last chunk was refused."""
        self._to_discard.append(insert.write.session_id)


def _chunk_end(write: Write, first: int) -> int:
    """Return the index after the last record of the chunk that starts at `first`."""
    size = 0
    last = min(first + CHUNK_RECORDS, len(write.records))
    for number in range(first, last):
        size += _char_count(write.records[number].body)
        if size > _CHUNK_CHARS:
            return number + 1
    return last


def _char_count(value: object) -> int:
    """Return the approximate length of a value in characters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_char_count(item) for item in value.values())
    return sum(_char_count(item) for item in value) if isinstance(value, list) else 0
