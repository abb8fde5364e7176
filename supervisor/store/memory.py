"""A store in memory, for tests and for programs that need no persistence.

Values are encoded when written and decoded when read, as on disk: a value that does not survive
a file does not survive here.
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
from supervisor.core.recovery import needs_no_recovery
from supervisor.core.state import Phase, SessionState

from .codec import decode, encode
from .port import (
    NO_FILTER,
    Filter,
    Hit,
    ProcessEntry,
    RawRecord,
    RawRow,
    StartupRows,
    Stored,
    StoredReply,
    SuspendedRow,
    Unfinished,
    Write,
    is_snapshot_due,
    matches,
    validate_records,
)
from .replay import input_history
from .tokenizer import INDEXED_KINDS, query_tokens, snippet, tokenize

# Number of rows between two checkpoints.
_BATCH = 100


class _SessionData:
    """The stored data of one session."""

    __slots__ = ("epoch", "number", "positions", "row", "snapshots")

    def __init__(self) -> None:
        # Both are set with the first row.
        self.number = 0
        self.row = b""
        self.epoch = 0
        # Positions of the records: that of number n is positions[n - 1].
        self.positions = array("Q")
        # Rows by the number of their last record; None before the first snapshot.
        self.snapshots: dict[int, bytes] | None = None


class MemoryStore:
    """A `port.Store` in memory."""

    def __init__(self, *, snapshot_every: int = 200) -> None:
        self._sessions: dict[SessionId, _SessionData] = {}
        # Sessions that are being inserted in chunks, invisible to readers.
        # Invariant: each has records.
        self._incomplete: dict[SessionId, _SessionData] = {}
        self._last_number = 0
        # Position p is at index p - 1; a deleted record leaves None, so that positions are stable.
        self._records: list[bytes | None] = []
        # Each with the session that it is deleted with.
        self._stored_replies: dict[tuple[str, str], tuple[SessionId, bytes]] = {}
        self._processes: dict[tuple[str, int, int], ProcessEntry] = {}
        self._snapshot_every = snapshot_every

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        # No full checkpoint: the writer yields by itself, and a turn has two commits.
        await trio.lowlevel.checkpoint_if_cancelled()
        refused: set[SessionId] = set()
        answers: list[SupervisorError | None] = []
        for write in writes:
            if write.session_id in refused:
                answer: SupervisorError | None = NotStorable(
                    f"an earlier write of session {write.session_id} was refused",
                    hint="look the session up again",
                )
            else:
                answer = self._commit(write)
            if isinstance(answer, NotStorable):
                refused.add(write.session_id)
            answers.append(answer)
        return answers

    def _commit(self, write: Write) -> SupervisorError | None:
        parts = _write_parts(write)
        for part in parts:
            refusal = self._refusal(part)
            if refusal is not None:
                return refusal
        # Encode first: a write that cannot be encoded must leave nothing behind.
        try:
            for part in parts:
                validate_records(part)
            encoded = [self._encode(part) for part in parts]
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return NotStorable(
                f"session {write.session_id} has a value that cannot be stored: {error}",
                hint="this is a bug in understudy, please report it",
            )
        for part, (row, records, kept) in zip(parts, encoded, strict=True):
            self._apply_write(part, row, records, kept)
            if part.deletes is not None:
                self._remove(part.deletes)
        return None

    def _refusal(self, write: Write) -> SupervisorError | None:
        visible = self._sessions.get(write.session_id)
        data = visible or self._incomplete.get(write.session_id)
        epoch, last = (0, 0) if data is None else (data.epoch, len(data.positions))
        if write.epoch != epoch:
            return Fenced(
                f"session {write.session_id} is at epoch {epoch}, not at {write.epoch}",
                hint="another incarnation has claimed it; look the session up again",
            )
        if any(record.seq != seq for seq, record in enumerate(write.records, last + 1)):
            numbers = ", ".join(str(record.seq) for record in write.records)
            return NotStorable(
                f"session {write.session_id} has {last} records, these are {numbers}",
                hint="an earlier write is missing; look the session up again",
            )
        if visible is None and write.row is None:
            return NotStorable(
                f"there is no session {write.session_id}",
                hint="the first write of a session has a row",
            )
        return None

    @staticmethod
    def _encode(write: Write) -> tuple[bytes | None, list[bytes], bytes | None]:
        return (
            None if write.row is None else _shrunk(encode(write.row)),
            [_shrunk(encode(record)) for record in write.records],
            None if write.stored_reply is None else _shrunk(encode(write.stored_reply)),
        )

    def _apply_write(
        self, write: Write, row: bytes | None, records: list[bytes], kept: bytes | None
    ) -> None:
        data = self._sessions.get(write.session_id)
        before = 0 if data is None else len(data.positions)
        if data is None:
            assert row is not None
            self._last_number += 1
            data = self._incomplete.pop(write.session_id, None) or _SessionData()
            data.number = self._last_number
            self._sessions[write.session_id] = data
        if row is not None:
            data.row = row
        self._append_records(data, records)
        last = len(data.positions)
        if row is not None and is_snapshot_due(before, last, self._snapshot_every):
            data.snapshots = {**(data.snapshots or {}), last: row}
        if write.stored_reply is not None and kept is not None:
            self._stored_replies[write.stored_reply.scope, write.stored_reply.key] = (
                write.session_id,
                kept,
            )

    def _append_records(self, data: _SessionData, records: list[bytes]) -> None:
        for record in records:
            self._records.append(record)
            data.positions.append(len(self._records))

    async def insert_chunk(self, session_id: SessionId, records: Sequence[Record]) -> None:
        await trio.lowlevel.checkpoint()
        write = Write(session_id, 0, tuple(records))
        data = self._incomplete.get(session_id) or _SessionData()
        last = len(data.positions)
        if session_id in self._sessions or any(
            record.seq != seq for seq, record in enumerate(records, last + 1)
        ):
            raise NotStorable(
                f"session {session_id} exists already, or has {last} records",
                hint="insert a session that does not exist, from its first record on",
            )
        try:
            validate_records(write)
            _, encoded, _ = self._encode(write)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise NotStorable(
                f"session {session_id} has a value that cannot be stored: {error}",
                hint="this is a bug in understudy, please report it",
            ) from error
        self._incomplete[session_id] = data
        self._append_records(data, encoded)

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        await trio.lowlevel.checkpoint()
        return [self._claim(session_id) for session_id in session_ids]

    def _claim(self, session_id: SessionId) -> Stored | None:
        data = self._sessions.get(session_id)
        if data is None:
            return None
        data.epoch += 1
        return self._stored(data)

    async def delete(self, session_id: SessionId) -> None:
        await trio.lowlevel.checkpoint()
        self._remove(session_id)

    def _remove(self, session_id: SessionId) -> None:
        data = self._sessions.pop(session_id, None) or self._incomplete.pop(session_id, None)
        for position in data.positions if data is not None else ():
            self._records[position - 1] = None
        # Also the replies stored for its own requests by sessions that it created.
        self._stored_replies = {
            place: kept
            for place, kept in self._stored_replies.items()
            if kept[0] != session_id and place[0].partition("/")[0] != session_id
        }

    async def purge_deleted(self) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    async def optimize_index(self) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    async def find_unfinished(self) -> Unfinished:
        await trio.lowlevel.checkpoint()
        for session_id in list(self._incomplete):
            self._remove(session_id)
        return Unfinished(needs_purge=False, needs_optimize=False)

    async def probe(self) -> None:
        await trio.lowlevel.checkpoint()

    async def check_file(self) -> None:
        await trio.lowlevel.checkpoint()

    async def record_process(self, process: ProcessEntry) -> None:
        await trio.lowlevel.checkpoint()
        self._processes[process.boot_id, process.pid, process.start_time] = process

    async def forget_process(self, process: ProcessEntry) -> None:
        await trio.lowlevel.checkpoint()
        self._processes.pop((process.boot_id, process.pid, process.start_time), None)

    async def sizes(self) -> Mapping[SessionId, int]:
        await trio.lowlevel.checkpoint()
        return {
            session_id: sum(
                len(orjson.dumps(record.body)) for record in await self.records(session_id)
            )
            for session_id in list(self._sessions)
        }

    async def backup(self, target: Path) -> int:
        await trio.lowlevel.checkpoint()
        raise ConfigError(
            f"a store in memory cannot be copied to {target.name}", hint="open the store as a file"
        )

    async def processes(self) -> list[ProcessEntry]:
        await trio.lowlevel.checkpoint()
        return list(self._processes.values())

    async def read(self, session_id: SessionId) -> Stored | None:
        await trio.lowlevel.checkpoint()
        data = self._sessions.get(session_id)
        return None if data is None else self._stored(data)

    async def records(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        limit: int | None = None,
        turn: TurnId | None = None,
    ) -> list[Record]:
        await trio.lowlevel.checkpoint()
        data = self._sessions.get(session_id)
        if data is None:
            return []
        end = None if limit is None or turn is not None else after + limit
        kept = (self._records[position - 1] for position in data.positions[after:end])
        records = [decode(record, Record) for record in kept if record is not None]
        if turn is None:
            return records
        return [record for record in records if record.turn_id == turn][:limit]

    async def records_of_input(self, session_id: SessionId, input_id: InputId) -> list[Record]:
        return input_history(input_id, await self.records(session_id))

    async def all_records(
        self, *, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Record]]:
        await trio.lowlevel.checkpoint()
        visible = (
            (position + 1, record)
            for position in range(after, self._last_visible_position())
            if (record := self._records[position]) is not None
        )
        return [(at, decode(record, Record)) for at, record in itertools.islice(visible, limit)]

    async def last_position(self) -> int:
        await trio.lowlevel.checkpoint()
        places = range(self._last_visible_position(), 0, -1)
        return next((at for at in places if self._records[at - 1] is not None), 0)

    def _last_visible_position(self) -> int:
        """Return the last position before the first record of an incomplete session."""
        begun = min((data.positions[0] for data in self._incomplete.values()), default=None)
        return len(self._records) if begun is None else begun - 1

    async def records_of_kinds(self, kinds: Collection[str]) -> list[Record]:
        found: list[Record] = []
        for session_id in sorted(self._sessions):
            found += [one for one in await self.records(session_id) if one.kind in kinds]
        return found

    async def raw_records(self, session_id: SessionId) -> list[RawRecord]:
        await trio.lowlevel.checkpoint()
        data = self._sessions.get(session_id)
        found = []
        for position in data.positions if data is not None else ():
            record = decode(self._records[position - 1] or b"", Record)
            body = orjson.dumps(record.body).decode()
            fields = (record.session_id, record.seq, record.at, record.turn_id, record.kind, body)
            found.append(RawRecord(position, *fields))
        return found

    async def snapshot(self, session_id: SessionId, *, at: int) -> tuple[int, SessionState] | None:
        await trio.lowlevel.checkpoint()
        data = self._sessions.get(session_id)
        snapshots = (data.snapshots if data is not None else None) or {}
        seq = max((seq for seq in snapshots if seq <= at), default=None)
        return None if seq is None else (seq, decode(snapshots[seq], SessionState))

    async def search(
        self,
        words: str,
        *,
        session_id: SessionId | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        await trio.lowlevel.checkpoint()
        wanted = query_tokens(words)
        found: list[Hit] = []
        hidden = {place for data in self._incomplete.values() for place in data.positions}
        visible = (
            (position, decode(record, Record))
            for position, record in reversed(list(enumerate(self._records, 1)))
            if record is not None and position not in hidden
        )
        for position, record in visible:
            if len(found) == limit:
                break
            if record.kind not in INDEXED_KINDS or (before is not None and position >= before):
                continue
            if session_id not in (None, record.session_id):
                continue
            text = record.body["text"]
            if wanted and wanted <= set(tokenize(text)):
                around = snippet(text, wanted)
                fields = (record.session_id, record.seq, record.at, record.turn_id, record.kind)
                found.append(Hit(position, *fields, around))
        return found

    async def rows(
        self,
        *,
        after: int = 0,
        matching: Filter | None = None,
        page_size: int | None = None,  # noqa: ARG002 - all rows are in memory
    ) -> AsyncGenerator[Stored, None]:
        await trio.lowlevel.checkpoint()
        wanted = matching or NO_FILTER
        for count, session_id in enumerate(list(self._sessions), 1):
            data = self._sessions.get(session_id)
            if data is not None and data.number > after:
                stored = self._stored(data)
                if matches(stored.row, wanted):
                    yield stored
            if not count % _BATCH:
                await trio.lowlevel.checkpoint()

    async def startup_rows(self) -> StartupRows:
        stored = [one async for one in self.rows()]
        above = {one for each in stored for one in each.row.lineage.above or ()}
        found = StartupRows([], [])
        for one in stored:
            row = one.row
            if needs_no_recovery(row) and row.id not in above:
                key = None if row.key is None or row.archived else str(row.key)
                found.suspended.append(SuspendedRow(row.id, row.phase is Phase.STOPPED, key))
            else:
                found.loaded.append(one)
        return found

    async def raw_row(self, session_id: SessionId) -> RawRow | None:
        await trio.lowlevel.checkpoint()
        data = self._sessions.get(session_id)
        if data is None:
            return None
        row = decode(data.row, SessionState)
        key = None if row.key is None or row.archived else str(row.key)
        return RawRow(session_id, data.epoch, key, row.lineage.root or session_id, data.row)

    async def damaged(self, *, known_readable: Collection[SessionId] = ()) -> list[SessionId]:  # noqa: ARG002
        await trio.lowlevel.checkpoint()
        return []  # rows in memory cannot be damaged

    async def stored_reply(self, scope: str, key: str) -> StoredReply | None:
        await trio.lowlevel.checkpoint()
        kept = self._stored_replies.get((scope, key))
        return None if kept is None else decode(kept[1], StoredReply)

    @staticmethod
    def _stored(data: _SessionData) -> Stored:
        return Stored(decode(data.row, SessionState), data.epoch, len(data.positions), data.number)


def _write_parts(write: Write) -> list[Write]:
    """Return the write and the writes linked to it."""
    parts = [write]
    while (also := parts[-1].linked_write) is not None:
        parts.append(also)
    return parts


def _shrunk(data: bytes) -> bytes:
    """Return a copy without the spare memory of orjson, which is often ten times the size."""
    return bytes(memoryview(data))
