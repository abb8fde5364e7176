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
from typing import Final, TypeAlias

from supervisor.core.errors import NotStorable, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.names import held_name, name_scope
from supervisor.core.recovery import needs_no_recovery
from supervisor.core.state import SessionState
from supervisor.store.codec import encode_plain, encode_row, encode_texts
from supervisor.store.filters import search_label
from supervisor.store.port import (
    ProcessEntry,
    Stored,
    Write,
    is_snapshot_due,
)
from supervisor.store.write_checks import (
    ENCODING_ERRORS,
    name_refusal,
    not_storable,
    refused_with_earlier,
    write_refusal,
)

from .bulk import (
    EncodedRecords,
    Values,
    encode_records,
    insert_records,
    inserted_count,
    mark_complete,
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
        label, tags, created_at, updated_at, resting, key, name, name_scope
    ) VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Only the columns that change: agent, key, position in the tree and workspace are fixed.
_UPDATE_SESSION: Final = """
    UPDATE sessions SET row = ?, phase = ?, archived = ?, updated_at = ?, resting = ?
    WHERE number = ? AND epoch = ?
"""
# Separate, and only if they changed: indexed columns cost more to write than the others.
_RENAME_SESSION: Final = """
    UPDATE sessions SET label = ?1, tags = ?2 WHERE id = ?3 AND (label <> ?1 OR tags <> ?2)
"""

# Also separate, and only if it changed. The scope too: until then, a name that was doubled before
# version 7 is in a scope of its own.
_UPDATE_NAME: Final = "UPDATE sessions SET name = ?, name_scope = ? WHERE number = ?"

_SELECT_HOLDER: Final = "SELECT id FROM sessions WHERE name_scope = ? AND name = ?"

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
    known = SessionCache() if known is None else known
    try:
        with transaction(connection):
            known.check(connection)
            return _Batch(connection, snapshot_every, known).add_all(writes)
    except BaseException as error:
        known.clear()  # after a rollback, or an unknown outcome
        if not _is_bad_value(error):
            raise
    with transaction(connection):
        return _commit_singly(connection, writes, snapshot_every)


def _is_bad_value(error: BaseException) -> bool:
    """Return True if SQLite refused a value of the write, not the write itself."""
    wrong = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
    # Lone surrogates and too large numbers: sqlite3 raises Python's own errors for them.
    wrong_for_python = (sqlite3.ProgrammingError, ValueError, OverflowError)
    too_big = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG
    return isinstance(error, (*wrong, *wrong_for_python)) or too_big


def _commit_singly(
    connection: sqlite3.Connection, writes: Sequence[Write], every: int
) -> list[Answer]:
    refused: set[SessionId] = set()
    answers: list[Answer] = []
    for one in writes:
        connection.execute("SAVEPOINT one")
        try:
            [answer] = _Batch(connection, every, SessionCache(connection), refused).add_all([one])
        except (sqlite3.Error, ValueError, OverflowError) as error:
            if not _is_bad_value(error):
                raise
            connection.execute("ROLLBACK TO one")
            refused.add(one.session_id)
            answer = not_storable(one.session_id, error)
        connection.execute("RELEASE one")
        answers.append(answer)
    return answers


# Encoding --------------------------------------------------------------------------------------

# The row, the records and the stored reply of one session's part of a write.
_Encoded: TypeAlias = tuple[str | None, EncodedRecords, Values | None]


def _encode_part(write: Write) -> _Encoded:
    records = encode_records(write)
    row = None if write.row is None else encode_row(write.row).decode()
    reply = write.stored_reply
    if reply is None:
        return row, records, None
    scope = split_scope(reply.scope)
    answer = encode_plain(reply.answer)
    return row, records, (*scope, reply.key, write.session_id, reply.fingerprint, answer)


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
        self._records = EncodedRecords()
        self._rows: dict[SessionId, Values] = {}
        self._names: dict[SessionId, Values] = {}
        self._replies: list[Values] = []
        self._snapshots: list[Values] = []

    def add_all(self, writes: Sequence[Write]) -> list[Answer]:
        """Check and collect each write, then write those that were not refused."""
        answers: list[Answer] = []
        for write in writes:
            answer = self._add(write)
            if isinstance(answer, NotStorable):
                self._refused.add(write.session_id)
            answers.append(answer)
        self._write()
        return answers

    def _add(self, write: Write) -> Answer:
        if write.session_id in self._refused:
            return refused_with_earlier(write.session_id)
        parts = write.parts
        for part in parts:
            refusal = self._refusal(part)
            if refusal is not None:
                return refusal
        taken = name_refusal(write, self._held_name, self._holder)
        if taken is not None:
            return taken
        try:
            encoded = list(map(_encode_part, parts))
        except ENCODING_ERRORS as error:
            return not_storable(write.session_id, error)
        for part, values in zip(parts, encoded, strict=True):
            self._collect(part, values)
        return None

    def _refusal(self, write: Write) -> Answer:
        state = self._cache[write.session_id]
        if state is not None:
            return write_refusal(write, state.epoch, state.last_seq)
        inserted = inserted_count(self._connection, write.session_id)
        return write_refusal(write, 0, inserted, is_stored=False)

    def _held_name(self, session_id: SessionId) -> str | None:
        state = self._cache[session_id]
        return None if state is None else state.held_name

    def _holder(self, scope: str, name: str) -> SessionId | None:
        found = self._connection.execute(_SELECT_HOLDER, (scope, name)).fetchone()
        return None if found is None else SessionId(found[0])

    def _collect(self, write: Write, encoded: _Encoded) -> None:
        row_json, records, reply = encoded
        state = self._cache[write.session_id]
        if state is None:
            assert row_json is not None
            state, before = self._insert_session(write, row_json), 0
        else:
            before = state.last_seq
            if row_json is not None:
                self._update_session(write, row_json, state)
        state.last_seq += len(write.records)
        self._records.append_all(records)
        if row_json is not None and is_snapshot_due(before, state.last_seq, self._every):
            self._snapshots.append((write.session_id, state.last_seq, row_json))
        if reply is not None:
            self._replies.append(reply)
        if write.deletes is not None:
            self._write()
            remove_session(self._connection, write.deletes)
            self._cache[write.deletes] = None

    def _insert_session(self, write: Write, row_json: str) -> CachedSession:
        row, session_id = write.row, write.session_id
        assert row is not None
        inserted = inserted_count(self._connection, session_id)
        made = self._connection.execute(_INSERT_SESSION, _columns(row, row_json))
        assert made.lastrowid is not None
        if inserted:
            mark_complete(self._connection, session_id)
        state = CachedSession(made.lastrowid, 0, inserted, held_name(row), _names(row))
        self._cache[session_id] = state
        return state

    def _update_session(self, write: Write, row_json: str, state: CachedSession) -> None:
        row, session_id = write.row, write.session_id
        assert row is not None
        self._rows[session_id] = (
            row_json,
            str(row.phase),  # sqlite3 looks for an adapter of other types than str
            int(row.archived),
            row.updated_at,
            int(needs_no_recovery(row)),
            state.number,
            state.epoch,
        )
        name = held_name(row)
        if state.held_name != name:
            # At once: a later write of the batch may take the name that this one gives up.
            self._connection.execute(_UPDATE_NAME, (name, name_scope(row), state.number))
            state.held_name = name
        names = _names(row)
        if state.names != names:
            self._names[session_id] = (search_label(row), encode_texts(row.tags), session_id)
            state.names = names

    def _write(self) -> None:
        connection = self._connection
        if self._rows:
            connection.executemany(_UPDATE_SESSION, self._rows.values())
            self._rows = {}
        if self._names:
            connection.executemany(_RENAME_SESSION, self._names.values())
            self._names = {}
        if self._records.columns:
            insert_records(connection, self._records)
            self._records = EncodedRecords()
        for statement, values in (
            (_INSERT_REPLY, self._replies),
            (_INSERT_SNAPSHOT, self._snapshots),
        ):
            if values:
                connection.executemany(statement, values)
                values.clear()


def _names(row: SessionState) -> Values:
    """Return the fields from which the label and the tags of a session are computed."""
    return (row.name, row.title, row.key, row.tags)


def _columns(row: SessionState, encoded: str) -> Values:
    """Return the columns of a new session: its row, and the columns that lists filter by."""
    key, lineage = row.key, row.lineage
    return (
        row.id,
        encoded,
        row.agent_name,
        str(row.phase),
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
        held_name(row),
        name_scope(row),
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
