"""The data of a store in memory, and how it is read; `memory` writes it."""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_right
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Final

import orjson
import trio

from supervisor.core.ids import CallId, InputId, SessionId, TurnId
from supervisor.core.match import IdKind, Place, is_part
from supervisor.core.names import held_name
from supervisor.core.records import Record
from supervisor.core.recovery import needs_no_recovery
from supervisor.core.state import Phase, SessionState
from supervisor.core.totals import Totals

from .codec import decode, decode_record
from .feed_reads import SEARCHED_RECORDS, joined_text
from .filters import RecoveredRows, matches
from .list_filter import NO_FILTER, Filter
from .port import (
    Hit,
    ProcessEntry,
    RawRecord,
    RawRow,
    StartupRows,
    Stored,
    StoredReply,
    SuspendedRow,
    is_of_work,
)
from .replay import input_history
from .running_totals import RunningTotals
from .tokenizer import INDEXED_KINDS, query_tokens, snippet, tokenize

# Number of rows between two checkpoints.
_BATCH = 100


# The record and the field of each kind of id.
_ID_FIELDS: Final[dict[IdKind, tuple[str, str]]] = {
    "input": ("input_accepted", "input_id"),
    "turn": ("turn_started", "turn_id"),
    "call": ("tool_call", "call_id"),
}


class SessionData:
    """The stored data of one session."""

    __slots__ = ("epoch", "name", "number", "positions", "row", "snapshots")

    def __init__(self) -> None:
        # Both are set with the first row.
        self.number = 0
        self.row = b""
        self.epoch = 0
        # The name that it holds, with its scope.
        self.name: tuple[str, str] | None = None
        # Positions of the records: that of number n is positions[n - 1].
        self.positions = array("Q")
        # Rows by the number of their last record; None before the first snapshot.
        self.snapshots: dict[int, bytes] | None = None


class MemoryReader:
    """The reading half of a `port.Store` in memory."""

    _recovered = RecoveredRows()

    def __init__(self, *, snapshot_every: int = 200) -> None:
        self._sessions: dict[SessionId, SessionData] = {}
        # Sessions that are being inserted in chunks, invisible to readers.
        # Invariant: each has records.
        self._incomplete: dict[SessionId, SessionData] = {}
        self._names: dict[tuple[str, str], SessionId] = {}
        self._last_number = 0
        # Position p is at index p - 1; a deleted record leaves None, so that positions are stable.
        self._records: list[bytes | None] = []
        # Each with the session that it is deleted with.
        self._stored_replies: dict[tuple[str, str], tuple[SessionId, bytes]] = {}
        self._processes: dict[tuple[str, int, int], ProcessEntry] = {}
        self._snapshot_every = snapshot_every
        self._totals = RunningTotals()

    async def sizes(self) -> Mapping[SessionId, int]:
        await trio.lowlevel.checkpoint()
        return {
            session_id: sum(
                len(orjson.dumps(record.body)) for record in await self.records(session_id)
            )
            for session_id in list(self._sessions)
        }

    async def processes(self) -> list[ProcessEntry]:
        await trio.lowlevel.checkpoint()
        return list(self._processes.values())

    async def read(self, session_id: SessionId) -> Stored | None:
        await trio.lowlevel.checkpoint()
        data = self._sessions.get(session_id)
        return None if data is None else self._recovered.shown(self._stored(data))

    async def read_some(self, session_ids: Sequence[SessionId]) -> list[Stored]:
        found = [await self.read(session_id) for session_id in session_ids]
        return [one for one in found if one is not None]

    async def find_ids(
        self,
        kind: IdKind,
        text: str,
        place: Place,
        *,
        session_id: SessionId | None = None,
        limit: int = 20,
    ) -> list[tuple[str, SessionId]]:
        await trio.lowlevel.checkpoint()
        if kind == "request" or (kind == "call" and session_id is None):
            return []
        found: set[tuple[str, SessionId]] = set()
        owners = list(self._sessions) if session_id is None else [session_id]
        for owner in owners:
            if owner not in self._sessions:
                continue
            ids = [owner] if kind == "session" else await self._ids_of(owner, kind)
            found |= {(one, owner) for one in ids if is_part(text, one, place)}
        return sorted(found)[:limit]

    async def _ids_of(self, session_id: SessionId, kind: IdKind) -> list[str]:
        """Return the ids of inputs, turns or calls in the records of a session."""
        name, field = _ID_FIELDS[kind]
        records = [one for one in await self.records(session_id) if one.kind == name]
        ids = [one.turn_id if kind == "turn" else one.body.get(field) for one in records]
        return [one for one in ids if one is not None]

    async def sessions_named(
        self, name: str, *, root: SessionId | None = None, limit: int = 20
    ) -> list[Stored]:
        wanted = Filter(root=root, text=name)
        named = [one async for one in self.rows(matching=wanted) if one.row.name == name]
        return sorted(named, key=lambda one: (one.row.archived, -one.number))[:limit]

    async def totals(self) -> Totals:
        return await self._totals.collect(self)

    def show_recovered(self, rows: Mapping[SessionId, SessionState]) -> bool:
        self._totals.note((*self._recovered, *rows))
        self._recovered = RecoveredRows(rows)
        return True

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
        records = [decode_record(record) for record in kept if record is not None]
        if turn is None:
            return records
        return [record for record in records if record.turn_id == turn][:limit]

    async def ran(self, session_id: SessionId, turn: TurnId | None, call: CallId | None) -> bool:
        return any(is_of_work(record, turn, call) for record in await self.records(session_id))

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
        return [(at, decode_record(record)) for at, record in itertools.islice(visible, limit)]

    async def last_position(self) -> int:
        await trio.lowlevel.checkpoint()
        places = range(self._last_visible_position(), 0, -1)
        return next((at for at in places if self._records[at - 1] is not None), 0)

    async def highest_position(self) -> int:
        await trio.lowlevel.checkpoint()
        return len(self._records)

    def _last_visible_position(self) -> int:
        """Return the last position before the first record of an incomplete session."""
        begun = min((data.positions[0] for data in self._incomplete.values()), default=None)
        return len(self._records) if begun is None else begun - 1

    async def records_by_position(
        self, after: Mapping[SessionId, int], *, limit: int
    ) -> list[tuple[int, Record]]:
        await trio.lowlevel.checkpoint()
        positions = sorted(
            position
            for session_id, seq in after.items()
            if (data := self._sessions.get(session_id)) is not None
            for position in data.positions[seq : seq + limit]
        )
        kept = ((position, self._records[position - 1]) for position in positions[:limit])
        return [(position, decode_record(one)) for position, one in kept if one is not None]

    async def numbers_at(
        self, position: int, session_ids: Collection[SessionId]
    ) -> dict[SessionId, int]:
        await trio.lowlevel.checkpoint()
        known = {one: self._sessions.get(one) for one in session_ids}
        return {
            one: 0 if data is None else bisect_right(data.positions, position)
            for one, data in known.items()
        }

    async def latest_texts(self, session_ids: Collection[SessionId]) -> dict[SessionId, str]:
        texts: dict[SessionId, str] = {}
        for session_id in session_ids:
            data = self._sessions.get(session_id)
            seq = 0 if data is None else len(data.positions)
            last = await self.records(session_id, after=max(0, seq - SEARCHED_RECORDS))
            said = joined_text(one for one in reversed(last) if one.kind == "agent_text")
            if said:
                texts[session_id] = said
        return texts

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
            record = decode_record(self._records[position - 1] or b"")
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
            (position, decode_record(record))
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
                stored = self._recovered.shown(self._stored(data))
                if matches(stored.row, wanted):
                    yield stored
            if not count % _BATCH:
                await trio.lowlevel.checkpoint()

    async def startup_rows(self) -> StartupRows:
        await trio.lowlevel.checkpoint()
        stored = [self._stored(data) for data in self._sessions.values()]
        above = {one for each in stored for one in each.row.lineage.above or ()}
        found = StartupRows([], [])
        for one in stored:
            row = one.row
            if needs_no_recovery(row) and row.id not in above:
                key = None if row.key is None or row.archived else str(row.key)
                is_stopped = row.phase is Phase.STOPPED
                found.suspended.append(SuspendedRow(row.id, is_stopped, key, held_name(row)))
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
    def _stored(data: SessionData) -> Stored:
        return Stored(decode(data.row, SessionState), data.epoch, len(data.positions), data.number)
