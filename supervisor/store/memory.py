"""A store in memory, for tests and for programs that need no persistence.

Values are encoded when written and decoded when read, as on disk: a value that does not survive
a file does not survive here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import trio

from supervisor.core.errors import ConfigError, NotStorable, SupervisorError
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId
from supervisor.core.names import held_name, name_scope
from supervisor.core.state import SessionState
from supervisor.core.steady_time import ClockReading

from .codec import compact, encode, encode_record, encode_row
from .memory_read import MemoryReader, SessionData
from .port import ProcessEntry, Stored, Unfinished, Write, is_snapshot_due
from .write_checks import (
    ENCODING_ERRORS,
    name_refusal,
    not_storable,
    refuse_chunk,
    refused_with_earlier,
    validate_records,
    write_refusal,
)


class MemoryStore(MemoryReader):
    """A `port.Store` in memory."""

    last_clock: ClockReading | None = None

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        # No full checkpoint: the writer yields by itself, and a turn has two commits.
        await trio.lowlevel.checkpoint_if_cancelled()
        refused: set[SessionId] = set()
        answers: list[SupervisorError | None] = []
        for write in writes:
            if write.session_id in refused:
                answer: SupervisorError | None = refused_with_earlier(write.session_id)
            else:
                answer = self._commit(write)
            if isinstance(answer, NotStorable):
                refused.add(write.session_id)
            answers.append(answer)
        self._totals.note_writes(writes)
        return answers

    def _commit(self, write: Write) -> SupervisorError | None:
        parts = write.parts
        for part in parts:
            refusal = self._refusal(part)
            if refusal is not None:
                return refusal
        taken = name_refusal(write, self._held_name, self._holder)
        if taken is not None:
            return taken
        # Encode first: a write that cannot be encoded must leave nothing behind.
        try:
            encoded = list(map(_encode, parts))
        except ENCODING_ERRORS as error:
            return not_storable(write.session_id, error)
        for part, data in zip(parts, encoded, strict=True):
            self._apply_write(part, data)
        return None

    def _refusal(self, write: Write) -> SupervisorError | None:
        data = self._sessions.get(write.session_id)
        if data is not None:
            return write_refusal(write, data.epoch, len(data.positions))
        begun = self._incomplete.get(write.session_id)
        last = 0 if begun is None else len(begun.positions)
        return write_refusal(write, 0, last, is_stored=False)

    def _apply_write(self, write: Write, encoded: _Encoded) -> None:
        row, records, reply = encoded
        data = self._sessions.get(write.session_id)
        if data is None:
            data, before = self._new_session(write.session_id), 0
        else:
            before = len(data.positions)
        self._append_records(data, records)
        if row is not None:
            assert write.row is not None
            self._hold_name(data, write.row)
            data.row = row
            last = len(data.positions)
            if is_snapshot_due(before, last, self._snapshot_every):
                data.snapshots = {**(data.snapshots or {}), last: row}
        if write.stored_reply is not None and reply is not None:
            place = (write.stored_reply.scope, write.stored_reply.key)
            self._stored_replies[place] = (write.session_id, reply)
        if write.deletes is not None:
            self._remove(write.deletes)

    def _held_name(self, session_id: SessionId) -> str | None:
        data = self._sessions.get(session_id)
        return None if data is None or data.name is None else data.name[1]

    def _holder(self, scope: str, name: str) -> SessionId | None:
        return self._names.get((scope, name))

    def _hold_name(self, data: SessionData, row: SessionState | None) -> None:
        """Replace the name that the session holds by that of its row, or by none."""
        name = None if row is None else held_name(row)
        if (None if data.name is None else data.name[1]) == name:
            return
        if data.name is not None:
            del self._names[data.name]
        data.name = None
        if row is not None and name is not None:
            data.name = (name_scope(row), name)
            self._names[data.name] = row.id

    def _new_session(self, session_id: SessionId) -> SessionData:
        self._last_number += 1
        data = self._incomplete.pop(session_id, None) or SessionData()
        data.number = self._last_number
        self._sessions[session_id] = data
        return data

    def _append_records(self, data: SessionData, records: list[bytes]) -> None:
        first = len(self._records) + 1
        self._records += records
        data.positions.extend(range(first, first + len(records)))

    async def insert_chunk(self, session_id: SessionId, records: Sequence[AnyRecord]) -> None:
        await trio.lowlevel.checkpoint()
        write = Write(session_id, 0, tuple(records))
        data = self._incomplete.get(session_id) or SessionData()
        last = len(data.positions)
        is_stored = session_id in self._sessions
        refuse_chunk(session_id, records, last_seq=last, is_stored=is_stored)
        try:
            _, encoded, _ = _encode(write)
        except ENCODING_ERRORS as error:
            raise not_storable(session_id, error) from error
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
        self._totals.note((session_id,))

    def _remove(self, session_id: SessionId) -> None:
        data = self._sessions.pop(session_id, None) or self._incomplete.pop(session_id, None)
        if data is not None:
            self._hold_name(data, None)
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

    @property
    def needs_checkpoint(self) -> bool:
        return False

    async def run_checkpoint(self) -> None:
        await trio.lowlevel.checkpoint()

    async def note_recovered(self) -> None:
        """Do nothing: no other process reads this store."""

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

    async def note_clock(self, reading: ClockReading) -> None:
        await trio.lowlevel.checkpoint()
        self.last_clock = reading

    async def record_process(self, process: ProcessEntry) -> None:
        await trio.lowlevel.checkpoint()
        self._processes[process.boot_id, process.pid, process.start_time] = process

    async def forget_process(self, process: ProcessEntry) -> None:
        await trio.lowlevel.checkpoint()
        self._processes.pop((process.boot_id, process.pid, process.start_time), None)

    async def backup(self, target: Path) -> int:
        await trio.lowlevel.checkpoint()
        raise ConfigError(
            f"a store in memory cannot be copied to {target.name}", hint="open the store as a file"
        )


# A row, records and a stored reply, as they are kept.
_Encoded: TypeAlias = tuple[bytes | None, list[bytes], bytes | None]


def _encode(write: Write) -> _Encoded:
    validate_records(write)
    return (
        None if write.row is None else encode_row(write.row),
        [encode_record(record) for record in write.records],
        None if write.stored_reply is None else compact(encode(write.stored_reply)),
    )
