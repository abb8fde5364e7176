"""All SQL that changes something: one batch of writes in one transaction.

Rule 1: what is checked is checked against the file, in the transaction that writes; what was read
        of it before holds as long as nobody else has written since, which the file itself says.
Rule 2: all parts of a write are checked before any of them leaves a mark, so a refusal needs no
        way back.
Rule 3: if the file itself refuses something in a batch, the batch is written again one by one, and
        only whose fault it was hears of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from supervisor.core.errors import Fenced, NotStorable, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.recovery import rests
from supervisor.core.session import Session
from supervisor.store.codec import encode, encode_plain, encode_texts
from supervisor.store.filters import label_of
from supervisor.store.port import Process, Stored, Write, is_due, refuse_unless_own

from .files import transaction
from .pieces import Values, arrived, finish, insert, remove, values_of
from .reading import read_one
from .schema import version_of

Answer: TypeAlias = SupervisorError | None

_INSERT_SESSION: Final = """
    INSERT INTO sessions (
        id, epoch, row, agent, phase, archived, channel, peer, parent, root, workspace,
        label, tags, created_at, updated_at, resting, key
    ) VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Only what a session's life changes: agent, key, place and workspace it has from its beginning.
_UPDATE_SESSION: Final = """
    UPDATE sessions SET row = ?, phase = ?, archived = ?, updated_at = ?, resting = ?
    WHERE id = ? AND epoch = ?
"""
# Apart, and only if they are others: what is indexed costs more to write than the rest.
_RENAME_SESSION: Final = """
    UPDATE sessions SET label = ?1, tags = ?2 WHERE id = ?3 AND (label <> ?1 OR tags <> ?2)
"""
_INSERT_KEPT: Final = """
    INSERT OR REPLACE INTO kept (scope, key, session_id, fingerprint, answer)
    VALUES (?, ?, ?, ?, ?)
"""
_INSERT_SNAPSHOT: Final = "INSERT OR REPLACE INTO snapshots (session_id, seq, row) VALUES (?, ?, ?)"
# So many sessions are known at once: some MB, and more than are ever busy together.
_MAX_KNOWN: Final = 16_384
_STATE: Final = """
    SELECT
        epoch,
        (
            SELECT max(seq) FROM records
            WHERE session_id = sessions.id AND typeof(seq) = 'integer'
        )
    FROM sessions WHERE id = ?
"""


class _State(NamedTuple):
    """What the file has of a session."""

    epoch: int
    last: int  # the number of its last record
    # What its label and tags were made of; None if they were not looked at.
    names: Values | None = None


class Known:
    """What the writer knows of the file: to look it up for each write took a tenth of a commit.

    Invariant: everything in it is in the file, or in the transaction that is open. Whoever rolls
    back forgets it all; and so does whoever finds that somebody else has written.
    """

    def __init__(self) -> None:
        # None for a session that is not there.
        self._states: dict[SessionId, _State | None] = {}
        self._version: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        """Forget all if another connection has written; asked in each transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version or len(self._states) > _MAX_KNOWN:
            self._states.clear()
            self._version = version

    def find(self, connection: sqlite3.Connection, session_id: SessionId) -> _State | None:
        """What the file has of the session, as of what was written so far."""
        try:
            return self._states[session_id]
        except KeyError:
            found = connection.execute(_STATE, (session_id,)).fetchone()
            state = None if found is None else _State(found[0], found[1] or 0)
            self._states[session_id] = state
            return state

    def put(self, session_id: SessionId, state: _State | None) -> None:
        """It is so now."""
        self._states[session_id] = state

    def forget(self, *session_ids: SessionId) -> None:
        """Something else was done to these."""
        for session_id in session_ids:
            self._states.pop(session_id, None)

    def forget_all(self) -> None:
        """What was written since is not, or nobody knows."""
        self._states.clear()


def commit(
    connection: sqlite3.Connection,
    writes: Sequence[Write],
    *,
    snapshot_every: int,
    known: Known | None = None,
) -> list[Answer]:
    """See `port.Store.commit`; raises sqlite3's own errors for the file's own troubles."""
    known = known or Known()
    encoded = [_encoded(write) for write in writes]
    try:
        with transaction(connection):
            known.check(connection)
            return _Batch(connection, snapshot_every, known).take(encoded)
    except BaseException as error:
        known.forget_all()
        if not _is_somebodys_fault(error):
            raise
    with transaction(connection):
        return _one_by_one(connection, encoded, snapshot_every)


def _is_somebodys_fault(error: BaseException) -> bool:
    """Whether the file refuses what it was given, and would take something else."""
    wrong = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
    # Text that is none, and numbers that are too large: sqlite3 says so in Python's own words.
    wrong_for_python = (sqlite3.ProgrammingError, ValueError, OverflowError)
    too_big = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG
    return isinstance(error, (*wrong, *wrong_for_python)) or too_big


def _one_by_one(
    connection: sqlite3.Connection, encoded: Sequence[_Encoded], every: int
) -> list[Answer]:
    refused: set[SessionId] = set()
    answers: list[Answer] = []
    for one in encoded:
        connection.execute("SAVEPOINT one")
        try:
            [answer] = _Batch(connection, every, Known(), refused).take([one])
        except (sqlite3.Error, ValueError, OverflowError) as error:
            if not _is_somebodys_fault(error):
                raise
            connection.execute("ROLLBACK TO one")
            refused.add(one.write.session_id)
            answer = _not_storable(one.write, error)
        connection.execute("RELEASE one")
        answers.append(answer)
    return answers


def _not_storable(write: Write, error: Exception) -> NotStorable:
    return NotStorable(
        f"session {write.session_id} has something that cannot be stored: {error}",
        hint="this is a defect: what comes in is checked at the door",
    )


# Encoding --------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """One session's share of a write, as it goes into the file."""

    write: Write
    row: str | None
    records: list[Values]
    kept: Values | None


class _Encoded(NamedTuple):
    """A write, and what its parts are in the file; or why they cannot be there."""

    write: Write
    parts: Sequence[_Part] = ()
    problem: NotStorable | None = None


def _encoded(write: Write) -> _Encoded:
    parts: list[_Part] = []
    part: Write | None = write
    try:
        while part is not None:
            parts.append(_encode_part(part))
            part = part.also
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return _Encoded(write, problem=_not_storable(write, error))
    return _Encoded(write, parts)


def _encode_part(write: Write) -> _Part:
    refuse_unless_own(write)
    kept = write.kept
    return _Part(
        write,
        None if write.row is None else encode(write.row).decode(),
        [values_of(record) for record in write.records],
        None
        if kept is None
        else (
            kept.scope,
            kept.key,
            write.session_id,
            kept.fingerprint,
            encode_plain(kept.answer),
        ),
    )


# One transaction -------------------------------------------------------------------------------


class _Batch:
    """What a transaction collects before it writes, so that much of it is written in one go."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        snapshot_every: int,
        known: Known,
        refused: set[SessionId] | None = None,
    ) -> None:
        self._connection = connection
        self._every = snapshot_every
        self._known = known
        # Sessions of which something was refused: what they wrote after it does not follow.
        self._refused: set[SessionId] = set() if refused is None else refused
        self._records: list[Values] = []
        self._rows: dict[SessionId, Values] = {}
        self._names: dict[SessionId, Values] = {}
        self._kept: list[Values] = []
        self._snapshots: list[Values] = []

    def take(self, encoded: Sequence[_Encoded]) -> list[Answer]:
        """Check and collect each of them, then write what was not refused."""
        answers: list[Answer] = []
        for one in encoded:
            answer = self._take(one)
            if isinstance(answer, NotStorable):
                self._refused.add(one.write.session_id)
            answers.append(answer)
        self._write()
        return answers

    def _take(self, one: _Encoded) -> Answer:
        if one.write.session_id in self._refused:
            return NotStorable(
                f"something before this of session {one.write.session_id} was refused",
                hint="look the session up again",
            )
        part: Write | None = one.write
        while part is not None:
            refusal = self._refusal(part)
            if refusal is not None:
                return refusal
            part = part.also
        if one.problem is not None:
            return one.problem
        for encoded in one.parts:
            self._collect(encoded)
        return None

    def _refusal(self, write: Write) -> Answer:
        state = self._known.find(self._connection, write.session_id)
        epoch, last = (0, None) if state is None else (state.epoch, state.last)
        if last is None:
            last = arrived(self._connection, write.session_id)
        if write.epoch != epoch:
            return Fenced(
                f"session {write.session_id} is at epoch {epoch}, not at {write.epoch}",
                hint="another incarnation has claimed it; look the session up again",
            )
        numbers = [record.seq for record in write.records]
        if numbers != list(range(last + 1, last + 1 + len(numbers))):
            return NotStorable(
                f"session {write.session_id} has {last} records,"
                f" these are {', '.join(map(str, numbers))}",
                hint="something before it was not written; look the session up again",
            )
        if state is None and write.row is None:
            return NotStorable(
                f"there is no session {write.session_id}", hint="a first write brings a row"
            )
        return None

    def _collect(self, part: _Part) -> None:
        write, row, session_id = part.write, part.write.row, part.write.session_id
        state = self._known.find(self._connection, session_id)
        epoch, before = (0, 0) if state is None else (state.epoch, state.last)
        names = None if state is None else state.names
        brought = arrived(self._connection, session_id) if state is None else 0
        last = before + brought + len(part.records)
        if row is not None:
            now = (row.name, row.title, row.key, row.tags)
            if state is None:
                assert part.row is not None
                self._connection.execute(_INSERT_SESSION, _columns(row, part.row))
                if brought:
                    finish(self._connection, session_id)
            else:
                changed = (part.row, row.phase, int(row.archived), row.updated_at)
                self._rows[session_id] = (*changed, int(rests(row)), session_id, epoch)
                if names != now:
                    self._names[session_id] = (label_of(row), encode_texts(row.tags), session_id)
            names = now
        self._known.put(session_id, _State(epoch, last, names))
        self._records += part.records
        if part.row is not None and is_due(before, last, self._every):
            self._snapshots.append((session_id, last, part.row))
        if part.kept is not None:
            self._kept.append(part.kept)
        if write.removes is not None:
            self._write()
            remove(self._connection, write.removes)
            self._known.put(write.removes, None)

    def _write(self) -> None:
        connection = self._connection
        if self._rows:
            connection.executemany(_UPDATE_SESSION, self._rows.values())
            self._rows = {}
        if self._names:
            connection.executemany(_RENAME_SESSION, self._names.values())
            self._names = {}
        if self._records:
            insert(connection, self._records)
            self._records = []
        for statement, values in (
            (_INSERT_KEPT, self._kept),
            (_INSERT_SNAPSHOT, self._snapshots),
        ):
            if values:
                connection.executemany(statement, values)
                values.clear()


def _columns(row: Session, encoded: str) -> Values:
    """A new session's row, with what lists are filtered by."""
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
        label_of(row),
        encode_texts(row.tags),
        row.created_at,
        row.updated_at,
        int(rests(row)),
        None if key is None else str(key),
    )


# The rest --------------------------------------------------------------------------------------


def claim(
    connection: sqlite3.Connection, session_ids: Sequence[SessionId], known: Known | None = None
) -> list[Stored | None]:
    """See `port.Store.claim`."""
    if known is not None:
        known.forget(*session_ids)
    with transaction(connection):
        claimed: list[Stored | None] = []
        for one in session_ids:  # the same one twice has two owners, one after the other
            connection.execute("UPDATE sessions SET epoch = epoch + 1 WHERE id = ?", (one,))
            claimed.append(read_one(connection, one))
        return claimed


def delete(
    connection: sqlite3.Connection, session_id: SessionId, known: Known | None = None
) -> None:
    """See `port.Store.delete`."""
    if known is not None:
        known.forget(session_id)
    with transaction(connection):
        remove(connection, session_id)


def probe(connection: sqlite3.Connection) -> None:
    """See `port.Store.probe`."""
    with transaction(connection):
        # The same as before, but written: a transaction that writes nothing touches no disk.
        connection.execute(f"PRAGMA user_version = {version_of(connection)}")


def note_process(connection: sqlite3.Connection, process: Process) -> None:
    """See `port.Store.note_process`."""
    with transaction(connection):
        connection.execute(
            "INSERT OR REPLACE INTO processes (boot_id, pid, start_time, session_id)"
            " VALUES (?, ?, ?, ?)",
            (process.boot_id, process.pid, process.start_time, process.session_id),
        )


def forget_process(connection: sqlite3.Connection, process: Process) -> None:
    """See `port.Store.forget_process`."""
    with transaction(connection):
        connection.execute(
            "DELETE FROM processes WHERE boot_id = ? AND pid = ? AND start_time = ?",
            (process.boot_id, process.pid, process.start_time),
        )
