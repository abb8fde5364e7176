"""A store in memory: for tests, and for whoever needs no yesterday.

Everything is encoded on the way in and decoded on the way out, as on disk: what would not survive
a file does not survive here either.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from pathlib import Path

import orjson
import trio

from supervisor.core.errors import ConfigError, Fenced, NotStorable, SupervisorError
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.records import Record
from supervisor.core.recovery import rests
from supervisor.core.session import Phase, Session

from .codec import decode, encode
from .fates import fate_of
from .filters import EVERYTHING, Filter, fits
from .port import (
    AtStart,
    Hit,
    Kept,
    Leftovers,
    Process,
    RawRecord,
    RawRow,
    Resting,
    Stored,
    Write,
    is_due,
    refuse_unless_own,
)
from .words import SAID, snippet, words_of, words_of_text

# After so many rows in one go everybody else gets a turn.
_BATCH = 100


class _Shelf:
    """What is kept of one session."""

    __slots__ = ("epoch", "number", "positions", "row", "snapshots")

    def __init__(self) -> None:
        # Both are given with its first row.
        self.number = 0
        self.row = b""
        self.epoch = 0
        # Where its records are: number n is at positions[n - 1].
        self.positions = array("Q")
        # Rows that were kept, by the number of the last record then; None before the first.
        self.snapshots: dict[int, bytes] | None = None


class MemoryStore:
    """See `port.Store`."""

    def __init__(self, *, snapshot_every: int = 200) -> None:
        self._shelves: dict[SessionId, _Shelf] = {}
        # Those of which not all is there, and of which nobody sees anything.
        # Invariant: each has records.
        self._arriving: dict[SessionId, _Shelf] = {}
        self._made = 0
        # Position p is at p - 1; a deleted record leaves None, so that positions stay.
        self._records: list[bytes | None] = []
        # With the session that they go with.
        self._kept: dict[tuple[str, str], tuple[SessionId, bytes]] = {}
        self._processes: dict[tuple[str, int, int], Process] = {}
        self._snapshot_every = snapshot_every

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
            for part in parts:
                refuse_unless_own(part)
            encoded = [self._encode(part) for part in parts]
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
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
        there = self._shelves.get(write.session_id)
        shelf = there or self._arriving.get(write.session_id)
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
        if there is None and write.row is None:
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
        before = 0 if shelf is None else len(shelf.positions)
        if shelf is None:
            assert row is not None
            self._made += 1
            shelf = self._arriving.pop(write.session_id, None) or _Shelf()
            shelf.number = self._made
            self._shelves[write.session_id] = shelf
        if row is not None:
            shelf.row = row
        self._put(shelf, records)
        last = len(shelf.positions)
        if row is not None and is_due(before, last, self._snapshot_every):
            shelf.snapshots = {**(shelf.snapshots or {}), last: row}
        if write.kept is not None and kept is not None:
            self._kept[write.kept.scope, write.kept.key] = (write.session_id, kept)

    def _put(self, shelf: _Shelf, records: list[bytes]) -> None:
        for record in records:
            self._records.append(record)
            shelf.positions.append(len(self._records))

    async def bring(self, session_id: SessionId, records: Sequence[Record]) -> None:
        await trio.lowlevel.checkpoint()
        write = Write(session_id, 0, tuple(records))
        shelf = self._arriving.get(session_id) or _Shelf()
        last = len(shelf.positions)
        if session_id in self._shelves or any(
            record.seq != seq for seq, record in enumerate(records, last + 1)
        ):
            raise NotStorable(
                f"session {session_id} is there, or has {last} records",
                hint="bring one that is not there yet, from its first record on",
            )
        try:
            refuse_unless_own(write)
            _, encoded, _ = self._encode(write)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise NotStorable(
                f"session {session_id} has something that cannot be stored: {error}",
                hint="this is a defect: what comes in is checked at the door",
            ) from error
        self._arriving[session_id] = shelf
        self._put(shelf, encoded)

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        await trio.lowlevel.checkpoint()
        return [self._claim(session_id) for session_id in session_ids]

    def _claim(self, session_id: SessionId) -> Stored | None:
        shelf = self._shelves.get(session_id)
        if shelf is None:
            return None
        shelf.epoch += 1
        return self._stored(shelf)

    async def delete(self, session_id: SessionId) -> None:
        await trio.lowlevel.checkpoint()
        self._remove(session_id)

    def _remove(self, session_id: SessionId) -> None:
        shelf = self._shelves.pop(session_id, None) or self._arriving.pop(session_id, None)
        for position in shelf.positions if shelf is not None else ():
            self._records[position - 1] = None
        # Also what was kept for its own requests by those whom it made.
        self._kept = {
            place: kept
            for place, kept in self._kept.items()
            if kept[0] != session_id and place[0].partition("/")[0] != session_id
        }

    async def clear_away(self) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    async def tidy(self) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    async def leftovers(self) -> Leftovers:
        await trio.lowlevel.checkpoint()
        for session_id in list(self._arriving):
            self._remove(session_id)
        return Leftovers(unfinished=False, untidy=False)

    async def probe(self) -> None:
        await trio.lowlevel.checkpoint()

    async def look(self) -> None:
        await trio.lowlevel.checkpoint()

    async def note_process(self, process: Process) -> None:
        await trio.lowlevel.checkpoint()
        self._processes[process.boot_id, process.pid, process.start_time] = process

    async def forget_process(self, process: Process) -> None:
        await trio.lowlevel.checkpoint()
        self._processes.pop((process.boot_id, process.pid, process.start_time), None)

    async def sizes(self) -> Mapping[SessionId, int]:
        await trio.lowlevel.checkpoint()
        return {
            session_id: sum(
                len(orjson.dumps(record.body)) for record in await self.records(session_id)
            )
            for session_id in list(self._shelves)
        }

    async def backup(self, target: Path) -> int:
        await trio.lowlevel.checkpoint()
        raise ConfigError(
            f"what is in memory cannot be copied to {target.name}", hint="open the store as a file"
        )

    async def processes(self) -> list[Process]:
        await trio.lowlevel.checkpoint()
        return list(self._processes.values())

    async def read(self, session_id: SessionId) -> Stored | None:
        await trio.lowlevel.checkpoint()
        shelf = self._shelves.get(session_id)
        return None if shelf is None else self._stored(shelf)

    async def records(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        limit: int | None = None,
        turn: TurnId | None = None,
    ) -> list[Record]:
        await trio.lowlevel.checkpoint()
        shelf = self._shelves.get(session_id)
        if shelf is None:
            return []
        end = None if limit is None or turn is not None else after + limit
        kept = (self._records[position - 1] for position in shelf.positions[after:end])
        records = [decode(record, Record) for record in kept if record is not None]
        if turn is None:
            return records
        return [record for record in records if record.turn_id == turn][:limit]

    async def records_of_input(self, session_id: SessionId, input_id: InputId) -> list[Record]:
        return fate_of(input_id, await self.records(session_id))

    async def all_records(
        self, *, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Record]]:
        await trio.lowlevel.checkpoint()
        there = (
            (position + 1, record)
            for position in range(after, self._horizon())
            if (record := self._records[position]) is not None
        )
        return [(at, decode(record, Record)) for at, record in itertools.islice(there, limit)]

    async def last_position(self) -> int:
        await trio.lowlevel.checkpoint()
        places = range(self._horizon(), 0, -1)
        return next((at for at in places if self._records[at - 1] is not None), 0)

    def _horizon(self) -> int:
        """What is being brought, and what was written after it, is for later."""
        begun = min((shelf.positions[0] for shelf in self._arriving.values()), default=None)
        return len(self._records) if begun is None else begun - 1

    async def records_of(self, kinds: Collection[str]) -> list[Record]:
        found: list[Record] = []
        for session_id in sorted(self._shelves):
            found += [one for one in await self.records(session_id) if one.kind in kinds]
        return found

    async def raw_records(self, session_id: SessionId) -> list[RawRecord]:
        await trio.lowlevel.checkpoint()
        shelf = self._shelves.get(session_id)
        found = []
        for position in shelf.positions if shelf is not None else ():
            record = decode(self._records[position - 1] or b"", Record)
            body = orjson.dumps(record.body).decode()
            fields = (record.session_id, record.seq, record.at, record.turn_id, record.kind, body)
            found.append(RawRecord(position, *fields))
        return found

    async def snapshot(self, session_id: SessionId, *, at: int) -> tuple[int, Session] | None:
        await trio.lowlevel.checkpoint()
        shelf = self._shelves.get(session_id)
        snapshots = (shelf.snapshots if shelf is not None else None) or {}
        seq = max((seq for seq in snapshots if seq <= at), default=None)
        return None if seq is None else (seq, decode(snapshots[seq], Session))

    async def search(
        self,
        words: str,
        *,
        session_id: SessionId | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        await trio.lowlevel.checkpoint()
        wanted = words_of(words)
        found: list[Hit] = []
        hidden = {place for shelf in self._arriving.values() for place in shelf.positions}
        there = (
            (position, decode(record, Record))
            for position, record in reversed(list(enumerate(self._records, 1)))
            if record is not None and position not in hidden
        )
        for position, record in there:
            if len(found) == limit:
                break
            if record.kind not in SAID or (before is not None and position >= before):
                continue
            if session_id not in (None, record.session_id):
                continue
            text = record.body["text"]
            if wanted and wanted <= set(words_of_text(text)):
                around = snippet(text, wanted)
                fields = (record.session_id, record.seq, record.at, record.turn_id, record.kind)
                found.append(Hit(position, *fields, around))
        return found

    async def rows(
        self,
        *,
        after: int = 0,
        fitting: Filter | None = None,
        at_once: int | None = None,  # noqa: ARG002 - all of them are at hand
    ) -> AsyncGenerator[Stored, None]:
        await trio.lowlevel.checkpoint()
        wanted = fitting or EVERYTHING
        for count, session_id in enumerate(list(self._shelves), 1):
            shelf = self._shelves.get(session_id)
            if shelf is not None and shelf.number > after:
                stored = self._stored(shelf)
                if fits(stored.row, wanted):
                    yield stored
            if not count % _BATCH:
                await trio.lowlevel.checkpoint()

    async def at_start(self) -> AtStart:
        stored = [one async for one in self.rows()]
        above = {one for each in stored for one in each.row.lineage.above or ()}
        found = AtStart([], [])
        for one in stored:
            row = one.row
            if rests(row) and row.id not in above:
                key = None if row.key is None or row.archived else str(row.key)
                found.resting.append(Resting(row.id, row.phase is Phase.STOPPED, key))
            else:
                found.others.append(one)
        return found

    async def raw_row(self, session_id: SessionId) -> RawRow | None:
        await trio.lowlevel.checkpoint()
        shelf = self._shelves.get(session_id)
        if shelf is None:
            return None
        row = decode(shelf.row, Session)
        key = None if row.key is None or row.archived else str(row.key)
        return RawRow(session_id, shelf.epoch, key, row.lineage.root or session_id, shelf.row)

    async def damaged(self, *, besides: Collection[SessionId] = ()) -> list[SessionId]:  # noqa: ARG002
        await trio.lowlevel.checkpoint()
        return []  # nobody else can get at them

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
