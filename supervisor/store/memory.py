"""A store in memory, for tests and for programs that need no persistence.

Values are encoded when written and decoded when read, as on disk: a value that does not survive
a file does not survive here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from supervisor.core.errors import ConfigError, NotStorable, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.steady_time import ClockReading

from .codec import encode
from .memory_read import MemoryReader, SessionData
from .port import ProcessEntry, Stored, Unfinished, Write, is_snapshot_due
from .write_checks import (
    ENCODING_ERRORS,
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
        except ENCODING_ERRORS as error:
            return not_storable(write.session_id, error)
        for part, (row, records, kept) in zip(parts, encoded, strict=True):
            self._apply_write(part, row, records, kept)
            if part.deletes is not None:
                self._remove(part.deletes)
        return None

    def _refusal(self, write: Write) -> SupervisorError | None:
        visible = self._sessions.get(write.session_id)
        data = visible or self._incomplete.get(write.session_id)
        epoch, last = (0, 0) if data is None else (data.epoch, len(data.positions))
        return write_refusal(write, epoch=epoch, last_seq=last, is_stored=visible is not None)

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
            data = self._incomplete.pop(write.session_id, None) or SessionData()
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

    def _append_records(self, data: SessionData, records: list[bytes]) -> None:
        for record in records:
            self._records.append(record)
            data.positions.append(len(self._records))

    async def insert_chunk(self, session_id: SessionId, records: Sequence[Record]) -> None:
        await trio.lowlevel.checkpoint()
        write = Write(session_id, 0, tuple(records))
        data = self._incomplete.get(session_id) or SessionData()
        last = len(data.positions)
        is_stored = session_id in self._sessions
        refuse_chunk(session_id, records, last_seq=last, is_stored=is_stored)
        try:
            validate_records(write)
            _, encoded, _ = self._encode(write)
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


def _write_parts(write: Write) -> list[Write]:
    """Return the write and the writes linked to it."""
    parts = [write]
    while (also := parts[-1].linked_write) is not None:
        parts.append(also)
    return parts


def _shrunk(data: bytes) -> bytes:
    """Return a copy without the spare memory of orjson, which is often ten times the size."""
    return bytes(memoryview(data))
