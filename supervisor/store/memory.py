"""A store in memory: for tests, and for whoever needs no yesterday.

Everything is encoded on the way in and decoded on the way out, as on disk: what would not survive
a file does not survive here either.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import AsyncGenerator, Sequence

import trio

from supervisor.core.errors import Fenced, NotStorable, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.session import Session

from .codec import decode, encode
from .port import Kept, Stored, Write

# After so many rows in one go everybody else gets a turn.
_BATCH = 100


class _Shelf:
    """What is kept of one session."""

    __slots__ = ("epoch", "number", "positions", "row")

    def __init__(self, number: int, row: bytes) -> None:
        self.number = number
        self.row = row
        self.epoch = 0
        # Where its records are: number n is at positions[n - 1].
        self.positions = array("Q")


class MemoryStore:
    """See `port.Store`."""

    def __init__(self) -> None:
        self._shelves: dict[SessionId, _Shelf] = {}
        self._made = 0
        # Position p is at p - 1; a deleted record leaves None, so that positions stay.
        self._records: list[bytes | None] = []
        # With the session that they go with.
        self._kept: dict[tuple[str, str], tuple[SessionId, bytes]] = {}

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        # No more than a look: the writer yields by itself, and a turn has two commits.
        await trio.lowlevel.checkpoint_if_cancelled()
        refused: set[SessionId] = set()
        answers: list[SupervisorError | None] = []
        for write in writes:
            if write.session_id in refused:
                answer: SupervisorError | None = NotStorable(
                    f"something before this of session {write.session_id} was refused",
                    hint="look the session up again",
                )
            else:
                answer = self._commit(write)
            if isinstance(answer, NotStorable):
                refused.add(write.session_id)
            answers.append(answer)
        return answers

    def _commit(self, write: Write) -> SupervisorError | None:
        parts = _parts(write)
        for part in parts:
            refusal = self._refusal(part)
            if refusal is not None:
                return refusal
        # Encoded before anything is kept: what cannot be encoded must not be half there.
        try:
            encoded = [self._encode(part) for part in parts]
        except (TypeError, ValueError, RecursionError) as error:
            return NotStorable(
                f"session {write.session_id} has something that cannot be stored: {error}",
                hint="this is a defect: what comes in is checked at the door",
            )
        for part, (row, records, kept) in zip(parts, encoded, strict=True):
            self._keep(part, row, records, kept)
            if part.removes is not None:
                self._remove(part.removes)
        return None

    def _refusal(self, write: Write) -> SupervisorError | None:
        shelf = self._shelves.get(write.session_id)
        epoch, last = (0, 0) if shelf is None else (shelf.epoch, len(shelf.positions))
        if write.epoch != epoch:
            return Fenced(
                f"session {write.session_id} is at epoch {epoch}, not at {write.epoch}",
                hint="another incarnation has claimed it; look the session up again",
            )
        if any(record.seq != seq for seq, record in enumerate(write.records, last + 1)):
            numbers = ", ".join(str(record.seq) for record in write.records)
            return NotStorable(
                f"session {write.session_id} has {last} records, these are {numbers}",
                hint="something before it was not written; look the session up again",
            )
        if shelf is None and write.row is None:
            return NotStorable(
                f"there is no session {write.session_id}", hint="a first write brings a row"
            )
        return None

    @staticmethod
    def _encode(write: Write) -> tuple[bytes | None, list[bytes], bytes | None]:
        return (
            None if write.row is None else _fitted(encode(write.row)),
            [_fitted(encode(record)) for record in write.records],
            None if write.kept is None else _fitted(encode(write.kept)),
        )

    def _keep(
        self, write: Write, row: bytes | None, records: list[bytes], kept: bytes | None
    ) -> None:
        shelf = self._shelves.get(write.session_id)
        if shelf is None:
            assert row is not None
            self._made += 1
            shelf = self._shelves[write.session_id] = _Shelf(self._made, row)
        elif row is not None:
            shelf.row = row
        for record in records:
            self._records.append(record)
            shelf.positions.append(len(self._records))
        if write.kept is not None and kept is not None:
            self._kept[write.kept.scope, write.kept.key] = (write.session_id, kept)

    async def claim(self, session_id: SessionId) -> Stored | None:
        await trio.lowlevel.checkpoint()
        shelf = self._shelves.get(session_id)
        if shelf is None:
            return None
        shelf.epoch += 1
        return self._stored(shelf)

    async def delete(self, session_id: SessionId) -> None:
        await trio.lowlevel.checkpoint()
        self._remove(session_id)

    def _remove(self, session_id: SessionId) -> None:
        shelf = self._shelves.pop(session_id, None)
        for position in shelf.positions if shelf is not None else ():
            self._records[position - 1] = None
        # Also what was kept for its own requests by those whom it made.
        self._kept = {
            place: kept
            for place, kept in self._kept.items()
            if kept[0] != session_id and place[0].partition("/")[0] != session_id
        }

    async def read(self, session_id: SessionId) -> Stored | None:
        await trio.lowlevel.checkpoint()
        shelf = self._shelves.get(session_id)
        return None if shelf is None else self._stored(shelf)

    async def records(
        self, session_id: SessionId, *, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        await trio.lowlevel.checkpoint()
        shelf = self._shelves.get(session_id)
        if shelf is None:
            return []
        end = None if limit is None else after + limit
        kept = (self._records[position - 1] for position in shelf.positions[after:end])
        return [decode(record, Record) for record in kept if record is not None]

    async def all_records(
        self, *, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Record]]:
        await trio.lowlevel.checkpoint()
        there = (
            (position + 1, record)
            for position in range(after, len(self._records))
            if (record := self._records[position]) is not None
        )
        return [(at, decode(record, Record)) for at, record in itertools.islice(there, limit)]

    async def rows(self, *, after: int = 0) -> AsyncGenerator[Stored, None]:
        await trio.lowlevel.checkpoint()
        for count, session_id in enumerate(list(self._shelves), 1):
            shelf = self._shelves.get(session_id)
            if shelf is not None and shelf.number > after:
                yield self._stored(shelf)
            if not count % _BATCH:
                await trio.lowlevel.checkpoint()

    async def kept(self, scope: str, key: str) -> Kept | None:
        await trio.lowlevel.checkpoint()
        kept = self._kept.get((scope, key))
        return None if kept is None else decode(kept[1], Kept)

    @staticmethod
    def _stored(shelf: _Shelf) -> Stored:
        return Stored(decode(shelf.row, Session), shelf.epoch, len(shelf.positions), shelf.number)


def _parts(write: Write) -> list[Write]:
    """The write, and all that belong to it."""
    parts = [write]
    while (also := parts[-1].also) is not None:
        parts.append(also)
    return parts


def _fitted(data: bytes) -> bytes:
    """The same bytes, without the room that orjson leaves behind them: often ten times as much."""
    return bytes(memoryview(data))
