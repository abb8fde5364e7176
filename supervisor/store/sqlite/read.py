"""SQL that only reads. Every function is one short transaction on one connection."""

from __future__ import annotations

import functools
import logging
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from supervisor.core.errors import NotStorable, short_repr
from supervisor.core.ids import CallId, InputId, SessionId, TurnId
from supervisor.core.log_content import Content
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.store.codec import decode, decode_plain
from supervisor.store.port import (
    ProcessEntry,
    RawRecord,
    RawRow,
    StartupRows,
    Stored,
    StoredReply,
    SuspendedRow,
)
from supervisor.store.replay import INPUT_HISTORY_KINDS, input_history

from .migrations import INPUT_ID_SQL
from .reply_scope import split_scope
from .schema import version_of

logger = logging.getLogger("supervisor")

SELECT_STORED: Final = """
    SELECT
        id,
        CAST(row AS BLOB),
        epoch,
        (
            SELECT max(seq) FROM records
            WHERE session_id = sessions.id AND typeof(seq) = 'integer'
        ),
        number
    FROM sessions
"""
# The body is read as bytes: it is large, so the likeliest to be damaged, and a body that is not
# valid UTF-8 is then an error of that record alone.
RECORD_COLUMNS: Final = "session_id, seq, at, turn_id, kind, CAST(body AS BLOB)"

_TEXT_OR_NONE: Final = frozenset({str, type(None)})

_NO_LIMIT: Final = -1
# Condition on records: those of a session that is only partly stored are hidden.
CALL_ID_SQL: Final = "CASE WHEN json_valid(body) THEN body ->> '$.call_id' END"
IS_COMPLETE: Final = "session_id NOT IN (SELECT session_id FROM unfinished)"

_MAX_POSITION: Final = 2**63 - 1
# The first position of a session that is being inserted; it and later positions are hidden.
_FIRST_HIDDEN_POSITION: Final = (
    f"ifnull((SELECT min(arrives_from) FROM unfinished), {_MAX_POSITION})"
)
# Decoded rows that are cached: their number, and the largest size of one.
_CACHED_ROWS: Final = 1_000

_MAX_CACHED_ROW_BYTES: Final = 4_096
# The first version of files with the column `resting`.
_FIRST_VERSION_WITH_RESTING: Final = 2
_FIRST_VERSION_WITH_NAME: Final = 7
# Not `name_scope`: a name that was doubled before version 7 has a scope of its own there.
_NAME_SQL: Final = "name, CASE WHEN parent IS NULL THEN '' ELSE root END"
_NO_NAME_SQL: Final = "NULL, ''"


def read_one(connection: sqlite3.Connection, session_id: SessionId) -> Stored | None:
    """Return the session as of its last commit; see `port.Store.read`."""
    found = connection.execute(f"{SELECT_STORED} WHERE id = ?", (session_id,)).fetchone()
    return None if found is None else _to_stored(found)


def read_some(
    connection: sqlite3.Connection, session_ids: Sequence[SessionId], named: set[SessionId]
) -> list[Stored]:
    """Return the sessions of these that exist and are readable; see `readable_rows`."""
    places = ", ".join("?" * len(session_ids))
    found = connection.execute(f"{SELECT_STORED} WHERE id IN ({places})", session_ids).fetchall()
    return readable_rows(found, named)[0]


def _to_stored(found: Sequence[Any]) -> Stored:
    session_id, row, epoch, last, number = found
    try:
        return Stored(_decode_row(session_id, row), epoch, last or 0, number)
    except ValueError as error:
        raise NotStorable(
            f"the row of session {session_id} cannot be read: {error}",
            hint="repair it: its row is rebuilt if its records are intact; or delete it",
        ) from error


def _decode_row(session_id: SessionId, row: bytes) -> SessionState:
    session = (
        _decode_cached(row) if len(row) <= _MAX_CACHED_ROW_BYTES else decode(row, SessionState)
    )
    if session.id != session_id:
        raise ValueError("this is the row of another session")
    return session


@functools.lru_cache(maxsize=_CACHED_ROWS)
def _decode_cached(row: bytes) -> SessionState:
    # Most rows of a list have not changed since the last read, and a decoded row is frozen.
    return decode(row, SessionState)


def records(
    connection: sqlite3.Connection,
    session_id: SessionId,
    after: int,
    limit: int | None,
    turn: TurnId | None,
) -> list[Record]:
    """Return the records after a number; see `port.Store.records`."""
    found = connection.execute(
        f"""
        SELECT {RECORD_COLUMNS} FROM records
        WHERE session_id = ?1 AND seq > ?2 AND (?4 IS NULL OR turn_id = ?4) AND {IS_COMPLETE}
        ORDER BY seq LIMIT ?3
        """,
        (session_id, after, _NO_LIMIT if limit is None else limit, turn),
    )
    # The records of one turn are for display: damaged ones are left out, not raised.
    return [to_record(one) for one in found] if turn is None else readable_records(found)


def ran(
    connection: sqlite3.Connection, session_id: SessionId, turn: TurnId | None, call: CallId | None
) -> bool:
    """Return True if the session has such records; see `port.Store.ran`."""
    (found,) = connection.execute(
        f"""
        SELECT EXISTS (
            SELECT 1 FROM records
            WHERE session_id = ?1 AND (?2 IS NULL OR turn_id = ?2) AND {IS_COMPLETE}
            AND (?3 IS NULL OR (kind = 'tool_call' AND {CALL_ID_SQL} = ?3))
        )
        """,
        (session_id, turn, call),
    ).fetchone()
    return bool(found)


def records_of_input(
    connection: sqlite3.Connection, session_id: SessionId, input_id: InputId
) -> list[Record]:
    """Return the records of an input; see `port.Store.records_of_input`."""
    # The plus keeps SQLite from using the index on (session_id, seq), where it would walk through
    # all earlier records to find the minimum.
    (accepted,) = connection.execute(
        f"""
        SELECT min(+seq) FROM records
        WHERE
            session_id = ? AND kind = 'input_accepted' AND {INPUT_ID_SQL} = ? AND {IS_COMPLETE}
        """,
        (session_id, input_id),
    ).fetchone()
    if accepted is None:
        return []
    kinds = ", ".join(f"'{kind}'" for kind in sorted(INPUT_HISTORY_KINDS))
    found = connection.execute(
        f"""
        SELECT {RECORD_COLUMNS} FROM records
        WHERE session_id = ? AND seq >= ? AND kind IN ({kinds}) ORDER BY seq
        """,
        (session_id, accepted),
    )
    return input_history(input_id, (to_record(one) for one in found))


def all_records(
    connection: sqlite3.Connection, after: int, limit: int | None
) -> list[tuple[int, Record]]:
    """Return the records of all sessions after a position; see `port.Store.all_records`."""
    found = connection.execute(
        f"""
        SELECT {RECORD_COLUMNS}, position FROM records
        WHERE position > ? AND {IS_COMPLETE} AND position < {_FIRST_HIDDEN_POSITION}
        ORDER BY position LIMIT ?
        """,
        (after, _NO_LIMIT if limit is None else limit),
    )
    return [(one[6], to_record(one)) for one in found]


def last_position(connection: sqlite3.Connection) -> int:
    """Return the position of the last visible record; see `port.Store.last_position`."""
    found = connection.execute(
        f"""
        SELECT position FROM records WHERE {IS_COMPLETE} AND position < {_FIRST_HIDDEN_POSITION}
        ORDER BY position DESC LIMIT 1
        """
    ).fetchone()
    return 0 if found is None else int(found[0])


def records_of_kinds(connection: sqlite3.Connection, kinds: Collection[str]) -> list[Record]:
    """Return all records of these kinds; see `port.Store.records_of_kinds`."""
    # Literals instead of parameters, so that a partial index over some kinds can be used.
    wanted = ", ".join(f"'{kind}'" for kind in sorted(kinds) if kind.isidentifier())
    found = connection.execute(
        f"""
        SELECT {RECORD_COLUMNS} FROM records WHERE kind IN ({wanted}) AND {IS_COMPLETE}
        ORDER BY session_id, seq
        """
    )
    return readable_records(found)


def to_record(found: Sequence[Any]) -> Record:
    """Return the record of a row of `RECORD_COLUMNS`; raise NotStorable if it is damaged."""
    session_id, seq, at, turn_id, kind, body = found[:6]
    try:
        if type(seq) is not int or type(at) is not float:
            raise TypeError("seq or at is not a number")  # noqa: TRY301 - reported below
        if type(turn_id) not in _TEXT_OR_NONE or type(kind) not in _TEXT_OR_NONE:
            raise TypeError("turn_id or kind is not text")  # noqa: TRY301 - reported below
        return Record(session_id, seq, at, turn_id, kind, decode_plain(body))
    except (ValueError, TypeError) as error:
        raise NotStorable(
            f"record {seq} of session {session_id} cannot be read: {error}",
            hint="repair(dry_run=True) of that session lists all problems",
        ) from error


def readable_records(found: Iterable[Sequence[Any]]) -> list[Record]:
    """Return the records that can be read; log the others."""
    records: list[Record] = []
    for one in found:
        try:
            records.append(to_record(one))
        except NotStorable as error:
            logger.error("%s", error)  # noqa: TRY400 - no traceback needed; it quotes no content
    return records


def raw_records(connection: sqlite3.Connection, session_id: SessionId) -> list[RawRecord]:
    """Return the undecoded records of a session; see `port.Store.raw_records`."""
    # A damaged value may not be valid UTF-8.
    connection.text_factory = _text_or_bytes
    try:
        found = connection.execute(
            f"""
            SELECT position, session_id, seq, at, turn_id, kind, body FROM records
            WHERE session_id = ? AND {IS_COMPLETE} ORDER BY position
            """,
            (session_id,),
        )
        return [RawRecord(*one) for one in found]
    finally:
        connection.text_factory = str


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def snapshot(
    connection: sqlite3.Connection, session_id: SessionId, at: int
) -> tuple[int, SessionState] | None:
    """Return the latest snapshot at or before a number; see `port.Store.snapshot`."""
    found = connection.execute(
        "SELECT seq, CAST(row AS BLOB) FROM snapshots WHERE session_id = ? AND seq <= ?"
        " ORDER BY seq DESC",
        (session_id, at),
    )
    for seq, row in found:
        try:
            return seq, _decode_row(session_id, row)
        except ValueError:  # an earlier snapshot serves as well, and so do the records
            logger.warning("snapshot of session %s at record %s cannot be read", session_id, seq)
    return None


# Resting, and the root of no other session: a session with descendants is read at start-up.
_IS_RESTING: Final = "resting AND id NOT IN (SELECT root FROM sessions WHERE parent IS NOT NULL)"


def startup_rows(connection: sqlite3.Connection, named: set[SessionId]) -> StartupRows:
    """Return all sessions as start-up needs them; see `port.Store.startup_rows`."""
    # A read-only store may be of a version without the column `resting`.
    is_resting = _IS_RESTING if version_of(connection) >= _FIRST_VERSION_WITH_RESTING else "FALSE"
    name = _NAME_SQL if version_of(connection) >= _FIRST_VERSION_WITH_NAME else _NO_NAME_SQL
    resting = f"SELECT id, phase = 'stopped', {_key_sql(connection)}, {name} FROM sessions"
    connection.execute("BEGIN")
    try:
        suspended = connection.execute(f"{resting} WHERE {is_resting} ORDER BY number").fetchall()
        others = connection.execute(
            f"{SELECT_STORED} WHERE NOT ({is_resting}) ORDER BY number"
        ).fetchall()
        readable, damaged = readable_rows(others, named)
        for one in damaged:
            suspended += connection.execute(f"{resting} WHERE id = ?", (one,))
    finally:
        connection.execute("COMMIT")
    return StartupRows([SuspendedRow(*one) for one in suspended], readable)


def _key_sql(connection: sqlite3.Connection) -> str:
    """Return SQL for the key that a session holds; NULL in files without the column."""
    has_column = version_of(connection) >= _FIRST_VERSION_WITH_RESTING
    return "CASE WHEN archived THEN NULL ELSE key END" if has_column else "NULL"


def readable_rows(
    found: Iterable[Sequence[Any]], named: set[SessionId]
) -> tuple[list[Stored], list[SessionId]]:
    """Return the rows that can be read, and the ids of the damaged ones.

    A damaged row is logged, unless its id is in `named`.
    """
    readable: list[Stored] = []
    damaged: list[SessionId] = []
    for one in found:
        try:
            readable.append(_to_stored(one))
        except NotStorable as error:
            damaged.append(one[0])
            if one[0] not in named:
                shown = f"the row of session {one[0]} cannot be read (hint: {error.hint})"
                logger.error("%s", Content(error, shown=shown))  # noqa: TRY400 - no traceback needed
                named.add(one[0])
    return readable, damaged


def raw_row(connection: sqlite3.Connection, session_id: SessionId) -> RawRow | None:
    """Return the undecoded row of a session; see `port.Store.raw_row`."""
    found = connection.execute(
        f"SELECT id, epoch, {_key_sql(connection)}, root, CAST(row AS BLOB)"
        " FROM sessions WHERE id = ?",
        (session_id,),
    ).fetchone()
    return None if found is None else RawRow(*found)


def damaged(
    connection: sqlite3.Connection, known_readable: Collection[SessionId]
) -> list[SessionId]:
    """Return the sessions with unreadable rows; see `port.Store.damaged`."""
    readable = frozenset(known_readable)
    # Without an order, so that SQLite reads the index of ids only and not the large rows.
    there = connection.execute("SELECT id FROM sessions")
    found = [one for (one,) in there if one not in readable and _is_damaged(connection, one)]
    return sorted(found, key=lambda one: _number_of(connection, one))


def _number_of(connection: sqlite3.Connection, session_id: SessionId) -> int:
    statement = "SELECT number FROM sessions WHERE id = ?"
    found = connection.execute(statement, (session_id,)).fetchone()
    return 0 if found is None else int(found[0])


def _is_damaged(connection: sqlite3.Connection, session_id: SessionId) -> bool:
    try:
        read_one(connection, session_id)
    except NotStorable:
        return True
    return False


def stored_reply(connection: sqlite3.Connection, scope: str, key: str) -> StoredReply | None:
    """Return the reply stored under a key; see `port.Store.stored_reply`."""
    found = connection.execute(
        "SELECT fingerprint, answer FROM kept WHERE scope = ? AND owner = ? AND key = ?",
        (*split_scope(scope), key),
    ).fetchone()
    if found is None:
        return None
    try:
        return StoredReply(scope, key, found[0], decode_plain(found[1]))
    except ValueError as error:
        raise NotStorable(
            f"the reply under idempotency key {short_repr(key)} cannot be read: {error}",
            hint="check whether the request had its effect; if not, send it with another key",
        ) from error


def processes(connection: sqlite3.Connection) -> list[ProcessEntry]:
    """Return the recorded processes; see `port.Store.processes`."""
    found = connection.execute("SELECT session_id, pid, start_time, boot_id FROM processes")
    return [ProcessEntry(*one) for one in found]
