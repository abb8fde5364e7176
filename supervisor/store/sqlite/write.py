"""SQL that writes: one batch of writes in one transaction.

Rule 1: a write is checked against the file, in the transaction that writes it. Cached values hold
        until another connection writes, which `PRAGMA data_version` shows.
Rule 2: all parts of a write are checked before any of them is written, so a refusal needs no
        rollback.
Rule 3: if SQLite refuses a value in a batch, the batch is written again write by write, and only
        the write at fault is refused.
Rule 4: records are inserted by `executemany`: sqlite-utils' `insert` takes 9 times as long, and
        `insert_all` twice as long.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from supervisor.core.errors import NotStorable, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.recovery import needs_no_recovery
from supervisor.core.state import SessionState
from supervisor.store.codec import encode, encode_plain, encode_texts
from supervisor.store.filters import search_label
from supervisor.store.port import (
    ProcessEntry,
    Stored,
    Write,
    is_snapshot_due,
)
from supervisor.store.write_checks import (
    ENCODING_ERRORS,
    not_storable,
    refused_with_earlier,
    validate_records,
    write_refusal,
)

from .bulk import (
    Values,
    insert_records,
    inserted_count,
    mark_complete,
    record_values,
    remove_session,
)
from .cache import CachedSession, SessionCache
from .files import transaction
from .read import read_one
from .reply_scope import split_scope
from .schema import version_of

Answer: TypeAlias = SupervisorError | None

_INSERT_SESSION: Final = """
    INSERT INTO sessions (
        id, epoch, row, agent, phase, archived, channel, peer, parent, root, workspace,
        label, tags, created_at, updated_at, resting, key
    ) VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Only the columns that change: agent, key, position in the tree and workspace are fixed.
_UPDATE_SESSION: Final = """
    UPDATE sessions SET row = ?, phase = ?, archived = ?, updated_at = ?, resting = ?
    WHERE id = ? AND epoch = ?
"""
# Separate, and only if they changed: indexed columns cost more to write than the others.
_RENAME_SESSION: Final = """
    UPDATE sessions SET label = ?1, tags = ?2 WHERE id = ?3 AND (label <> ?1 OR tags <> ?2)
"""

_INSERT_REPLY: Final = """
    INSERT OR REPLACE INTO kept (scope, owner, key, session_id, fingerprint, answer)
    VALUES (?, ?, ?, ?, ?, ?)
"""

_INSERT_SNAPSHOT: Final = "INSERT OR REPLACE INTO snapshots (session_id, seq, row) VALUES (?, ?, ?)"


def commit(
    connection: sqlite3.Connection,
    writes: Sequence[Write],
    *,
    snapshot_every: int,
    known: SessionCache | None = None,
) -> list[Answer]:
    """Commit the writes in one transaction; see `port.Store.commit`.

    Errors of sqlite3 that concern the file are raised unchanged.
    """
    known = known or SessionCache()
    encoded = [_encode_write(write) for write in writes]
    try:
        with transaction(connection):
            known.check(connection)
            return _Batch(connection, snapshot_every, known).add_all(encoded)
    except BaseException as error:
        known.forget_all()
        if not _is_bad_value(error):
            raise
    with transaction(connection):
        return _commit_singly(connection, encoded, snapshot_every)


def _is_bad_value(error: BaseException) -> bool:
    """Return True if SQLite refused a value of the write, not the write itself."""
    wrong = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
    # Lone surrogates and too large numbers: sqlite3 raises Python's own errors for them.
    wrong_for_python = (sqlite3.ProgrammingError, ValueError, OverflowError)
    too_big = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG
    return isinstance(error, (*wrong, *wrong_for_python)) or too_big


def _commit_singly(
    connection: sqlite3.Connection, encoded: Sequence[_EncodedWrite], every: int
) -> list[Answer]:
    refused: set[SessionId] = set()
    answers: list[Answer] = []
    for one in encoded:
        connection.execute("SAVEPOINT one")
        try:
            [answer] = _Batch(connection, every, SessionCache(), refused).add_all([one])
        except (sqlite3.Error, ValueError, OverflowError) as error:
            if not _is_bad_value(error):
                raise
            connection.execute("ROLLBACK TO one")
            refused.add(one.write.session_id)
            answer = not_storable(one.write.session_id, error)
        connection.execute("RELEASE one")
        answers.append(answer)
    return answers


# Encoding --------------------------------------------------------------------------------------


class _EncodedPart(NamedTuple):
    """The part of a write that belongs to one session, encoded."""

    write: Write
    row: str | None
    records: list[Values]
    reply: Values | None


class _EncodedWrite(NamedTuple):
    """A write with its encoded parts, or the error if they cannot be encoded."""

    write: Write
    parts: Sequence[_EncodedPart] = ()
    problem: NotStorable | None = None


def _encode_write(write: Write) -> _EncodedWrite:
    parts: list[_EncodedPart] = []
    part: Write | None = write
    try:
        while part is not None:
            parts.append(_encode_part(part))
            part = part.linked_write
    except ENCODING_ERRORS as error:
        return _EncodedWrite(write, problem=not_storable(write.session_id, error))
    return _EncodedWrite(write, parts)


def _encode_part(write: Write) -> _EncodedPart:
    validate_records(write)
    reply = write.stored_reply
    return _EncodedPart(
        write,
        None if write.row is None else encode(write.row).decode(),
        [record_values(record) for record in write.records],
        None
        if reply is None
        else (
            *split_scope(reply.scope),
            reply.key,
            write.session_id,
            reply.fingerprint,
            encode_plain(reply.answer),
        ),
    )


# One transaction -------------------------------------------------------------------------------


class _Batch:
    """The writes of one transaction, collected so that each table is written at once."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        snapshot_every: int,
        known: SessionCache,
        refused: set[SessionId] | None = None,
    ) -> None:
        self._connection = connection
        self._every = snapshot_every
        self._cache = known
        # Sessions with a refused write: their later writes are refused too.
        self._refused: set[SessionId] = set() if refused is None else refused
        self._records: list[Values] = []
        self._rows: dict[SessionId, Values] = {}
        self._names: dict[SessionId, Values] = {}
        self._replies: list[Values] = []
        self._snapshots: list[Values] = []

    def add_all(self, encoded: Sequence[_EncodedWrite]) -> list[Answer]:
        """Check and collect each write, then write those that were not refused."""
        answers: list[Answer] = []
        for one in encoded:
            answer = self._add(one)
            if isinstance(answer, NotStorable):
                self._refused.add(one.write.session_id)
            answers.append(answer)
        self._write()
        return answers

    def _add(self, one: _EncodedWrite) -> Answer:
        if one.write.session_id in self._refused:
            return refused_with_earlier(one.write.session_id)
        part: Write | None = one.write
        while part is not None:
            refusal = self._refusal(part)
            if refusal is not None:
                return refusal
            part = part.linked_write
        if one.problem is not None:
            return one.problem
        for encoded in one.parts:
            self._collect(encoded)
        return None

    def _refusal(self, write: Write) -> Answer:
        state = self._cache.find(self._connection, write.session_id)
        epoch, last = (0, None) if state is None else (state.epoch, state.last_seq)
        if last is None:
            last = inserted_count(self._connection, write.session_id)
        return write_refusal(write, epoch=epoch, last_seq=last, is_stored=state is not None)

    def _collect(self, part: _EncodedPart) -> None:
        write, row, session_id = part.write, part.write.row, part.write.session_id
        state = self._cache.find(self._connection, session_id)
        epoch, before = (0, 0) if state is None else (state.epoch, state.last_seq)
        names = None if state is None else state.names
        inserted = inserted_count(self._connection, session_id) if state is None else 0
        last = before + inserted + len(part.records)
        if row is not None:
            now = (row.name, row.title, row.key, row.tags)
            if state is None:
                assert part.row is not None
                self._connection.execute(_INSERT_SESSION, _columns(row, part.row))
                if inserted:
                    mark_complete(self._connection, session_id)
            else:
                changed = (part.row, row.phase, int(row.archived), row.updated_at)
                self._rows[session_id] = (*changed, int(needs_no_recovery(row)), session_id, epoch)
                if names != now:
                    self._names[session_id] = (
                        search_label(row),
                        encode_texts(row.tags),
                        session_id,
                    )
            names = now
        self._cache.put(session_id, CachedSession(epoch, last, names))
        self._records += part.records
        if part.row is not None and is_snapshot_due(before, last, self._every):
            self._snapshots.append((session_id, last, part.row))
        if part.reply is not None:
            self._replies.append(part.reply)
        if write.deletes is not None:
            self._write()
            remove_session(self._connection, write.deletes)
            self._cache.put(write.deletes, None)

    def _write(self) -> None:
        connection = self._connection
        if self._rows:
            connection.executemany(_UPDATE_SESSION, self._rows.values())
            self._rows = {}
        if self._names:
            connection.executemany(_RENAME_SESSION, self._names.values())
            self._names = {}
        if self._records:
            insert_records(connection, self._records)
            self._records = []
        for statement, values in (
            (_INSERT_REPLY, self._replies),
            (_INSERT_SNAPSHOT, self._snapshots),
        ):
            if values:
                connection.executemany(statement, values)
                values.clear()


def _columns(row: SessionState, encoded: str) -> Values:
    """Return the columns of a new session: its row, and the columns that lists filter by."""
    key, lineage = row.key, row.lineage
    return (
        row.id,
        encoded,
        row.agent_name,
        row.phase,
        int(row.archived),
        None if key is None else key.channel,
        None if key is None else key.peer,
        lineage.parent,
        lineage.root or row.id,
        row.workspace,
        search_label(row),
        encode_texts(row.tags),
        row.created_at,
        row.updated_at,
        int(needs_no_recovery(row)),
        None if key is None else str(key),
    )


# The rest --------------------------------------------------------------------------------------


def claim(
    connection: sqlite3.Connection,
    session_ids: Sequence[SessionId],
    known: SessionCache | None = None,
) -> list[Stored | None]:
    """Increase the epoch of each session by one; see `port.Store.claim`."""
    if known is not None:
        known.forget(*session_ids)
    with transaction(connection):
        claimed: list[Stored | None] = []
        for one in session_ids:  # an id given twice is claimed twice
            connection.execute("UPDATE sessions SET epoch = epoch + 1 WHERE id = ?", (one,))
            claimed.append(read_one(connection, one))
        return claimed


def delete(
    connection: sqlite3.Connection, session_id: SessionId, known: SessionCache | None = None
) -> None:
    """Delete a session for all readers; see `port.Store.delete`."""
    if known is not None:
        known.forget(session_id)
    with transaction(connection):
        remove_session(connection, session_id)


def probe(connection: sqlite3.Connection) -> None:
    """Write without changing anything; see `port.Store.probe`."""
    with transaction(connection):
        # Writes the same value: a transaction that writes nothing does not touch the disk.
        connection.execute(f"PRAGMA user_version = {version_of(connection)}")


def record_process(connection: sqlite3.Connection, process: ProcessEntry) -> None:
    """Store the identity of a process; see `port.Store.record_process`."""
    with transaction(connection):
        connection.execute(
            "INSERT OR REPLACE INTO processes (boot_id, pid, start_time, session_id)"
            " VALUES (?, ?, ?, ?)",
            (process.boot_id, process.pid, process.start_time, process.session_id),
        )


def forget_process(connection: sqlite3.Connection, process: ProcessEntry) -> None:
    """Remove the entry of a process; see `port.Store.forget_process`."""
    with transaction(connection):
        connection.execute(
            "DELETE FROM processes WHERE boot_id = ? AND pid = ? AND start_time = ?",
            (process.boot_id, process.pid, process.start_time),
        )
