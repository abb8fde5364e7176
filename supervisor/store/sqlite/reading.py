"""All SQL that only looks. Every function is one short transaction on one connection."""

from __future__ import annotations

import functools
import logging
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, TypeAlias

from supervisor.core.errors import NotStorable, shown
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.info import FAILED_REASONS
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.store.codec import decode, decode_plain, encode_text
from supervisor.store.fates import KINDS_OF_FATES, fate_of
from supervisor.store.filters import EVERYTHING, PHASES_OF_BADGES, Filter, fits
from supervisor.store.port import AtStart, Hit, Kept, Process, RawRecord, RawRow, Resting, Stored
from supervisor.store.words import snippet, text_in, words_of, words_of_text

from .schema import INPUT_ID, version_of

Values: TypeAlias = list[Any]
logger = logging.getLogger("supervisor")

_STORED: Final = """
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
# What is large, and so likeliest to be damaged, is read as bytes: whoever decodes them says of that
# one alone that it is no text.
_RECORD: Final = "session_id, seq, at, turn_id, kind, CAST(body AS BLOB)"
_TEXT_OR_NONE: Final = frozenset({str, type(None)})
_NO_LIMIT: Final = -1
# Of records: nobody sees those of a session of which only a part is there.
_IS_WHOLE: Final = "session_id NOT IN (SELECT session_id FROM unfinished)"
_NO_HORIZON: Final = 2**63 - 1
# Where a session that is being brought begins: it, and what was written after it, is for later.
_HORIZON: Final = f"ifnull((SELECT min(arrives_from) FROM unfinished), {_NO_HORIZON})"
# So many rows are read before somebody else may write a checkpoint, and anything else may run.
PAGE_ROWS: Final = 200
# Rows that are not taken apart again while they stay the same: so many, each no larger than this.
_SMALL_ROWS: Final = 1_000
_SMALL_ROW_BYTES: Final = 4_096
# The version from which on a file has the column.
_NOTES_WHO_RESTS: Final = 2


def read_one(connection: sqlite3.Connection, session_id: SessionId) -> Stored | None:
    """See `port.Store.read`."""
    found = connection.execute(f"{_STORED} WHERE id = ?", (session_id,)).fetchone()
    return None if found is None else _stored(found)


def _stored(found: Sequence[Any]) -> Stored:
    session_id, row, epoch, last, number = found
    try:
        return Stored(_session(session_id, row), epoch, last or 0, number)
    except ValueError as error:
        raise NotStorable(
            f"session {session_id} is stored in a way that cannot be read: {error}",
            hint="a repair makes its row anew if its records are whole; or delete it",
        ) from error


def _session(session_id: SessionId, row: bytes) -> Session:
    session = _small(row) if len(row) <= _SMALL_ROW_BYTES else decode(row, Session)
    if session.id != session_id:
        raise ValueError("this is the row of another session")
    return session


@functools.lru_cache(maxsize=_SMALL_ROWS)
def _small(row: bytes) -> Session:
    # Most rows of a list are as they were when somebody looked last; and they are frozen.
    return decode(row, Session)


def records(
    connection: sqlite3.Connection,
    session_id: SessionId,
    after: int,
    limit: int | None,
    turn: TurnId | None,
) -> list[Record]:
    """See `port.Store.records`."""
    found = connection.execute(
        f"""
        SELECT {_RECORD} FROM records
        WHERE session_id = ?1 AND seq > ?2 AND (?4 IS NULL OR turn_id = ?4) AND {_IS_WHOLE}
        ORDER BY seq LIMIT ?3
        """,
        (session_id, after, _NO_LIMIT if limit is None else limit, turn),
    )
    # Who wants one turn wants to know what was said in it, as far as that can be known.
    return [_record(one) for one in found] if turn is None else _readable(found)


def records_of_input(
    connection: sqlite3.Connection, session_id: SessionId, input_id: InputId
) -> list[Record]:
    """See `port.Store.records_of_input`."""
    # With the plus it is no longer the number of an index, or SQLite would look for the least of
    # all numbers and go through whatever is before it.
    (accepted,) = connection.execute(
        f"""
        SELECT min(+seq) FROM records
        WHERE
            session_id = ? AND kind = 'input_accepted' AND {INPUT_ID} = ? AND {_IS_WHOLE}
        """,
        (session_id, input_id),
    ).fetchone()
    if accepted is None:
        return []
    kinds = ", ".join(f"'{kind}'" for kind in sorted(KINDS_OF_FATES))
    found = connection.execute(
        f"""
        SELECT {_RECORD} FROM records
        WHERE session_id = ? AND seq >= ? AND kind IN ({kinds}) ORDER BY seq
        """,
        (session_id, accepted),
    )
    return fate_of(input_id, (_record(one) for one in found))


def all_records(
    connection: sqlite3.Connection, after: int, limit: int | None
) -> list[tuple[int, Record]]:
    """See `port.Store.all_records`."""
    found = connection.execute(
        f"""
        SELECT {_RECORD}, position FROM records
        WHERE position > ? AND {_IS_WHOLE} AND position < {_HORIZON}
        ORDER BY position LIMIT ?
        """,
        (after, _NO_LIMIT if limit is None else limit),
    )
    return [(one[6], _record(one)) for one in found]


def last_position(connection: sqlite3.Connection) -> int:
    """See `port.Store.last_position`."""
    found = connection.execute(
        f"""
        SELECT position FROM records WHERE {_IS_WHOLE} AND position < {_HORIZON}
        ORDER BY position DESC LIMIT 1
        """
    ).fetchone()
    return 0 if found is None else int(found[0])


def records_of(connection: sqlite3.Connection, kinds: Collection[str]) -> list[Record]:
    """See `port.Store.records_of`."""
    # Written out and not bound, so that an index over some kinds can be used.
    wanted = ", ".join(f"'{kind}'" for kind in sorted(kinds) if kind.isidentifier())
    found = connection.execute(
        f"""
        SELECT {_RECORD} FROM records WHERE kind IN ({wanted}) AND {_IS_WHOLE}
        ORDER BY session_id, seq
        """
    )
    return _readable(found)


def _record(found: Sequence[Any]) -> Record:
    session_id, seq, at, turn_id, kind, body = found[:6]
    try:
        if type(seq) is not int or type(at) is not float:
            raise TypeError("it has no number, or no time")  # noqa: TRY301 - said below
        if type(turn_id) not in _TEXT_OR_NONE or type(kind) not in _TEXT_OR_NONE:
            raise TypeError("its turn, or its kind, is no text")  # noqa: TRY301 - as above
        return Record(session_id, seq, at, turn_id, kind, decode_plain(body))
    except (ValueError, TypeError) as error:
        raise NotStorable(
            f"record {seq} of session {session_id} cannot be read: {error}",
            hint="repair(dry_run=True) of that session says what else is wrong",
        ) from error


def _readable(found: Iterable[Sequence[Any]]) -> list[Record]:
    """Those of them that can be read; of the others the log says so."""
    records: list[Record] = []
    for one in found:
        try:
            records.append(_record(one))
        except NotStorable as error:
            logger.error("%s", error)  # noqa: TRY400 - what is wrong is said, where is no matter
    return records


def raw_records(connection: sqlite3.Connection, session_id: SessionId) -> list[RawRecord]:
    """See `port.Store.raw_records`."""
    # What is damaged may not even be text.
    connection.text_factory = _text_or_bytes
    try:
        found = connection.execute(
            f"""
            SELECT position, session_id, seq, at, turn_id, kind, body FROM records
            WHERE session_id = ? AND {_IS_WHOLE} ORDER BY position
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
) -> tuple[int, Session] | None:
    """See `port.Store.snapshot`."""
    found = connection.execute(
        "SELECT seq, CAST(row AS BLOB) FROM snapshots WHERE session_id = ? AND seq <= ?"
        " ORDER BY seq DESC",
        (session_id, at),
    )
    for seq, row in found:
        try:
            return seq, _session(session_id, row)
        except ValueError:  # an earlier one does as well, and so do the records
            logger.warning("a snapshot of session %s, at %s, cannot be read", session_id, seq)
    return None


def page_of_rows(
    connection: sqlite3.Connection,
    after: int,
    wanted: Filter,
    count: int = PAGE_ROWS,
    named: set[SessionId] | None = None,
) -> tuple[list[Stored], int | None]:
    """The next sessions that fit, about so many, and after which number to go on; None at the end.

    The index narrows, and `fits` decides: so every store means the same. Of whom cannot be read the
    log says so, unless it was `named` before.
    """
    conditions, values = _conditions(wanted)
    # Which they are is looked up first, in an index where there is one for it: rows are large.
    found = connection.execute(
        f"""
        {_STORED} WHERE number IN (
            SELECT number FROM sessions WHERE number > ? {conditions} ORDER BY number LIMIT ?
        ) ORDER BY number
        """,
        (after, *values, count),
    ).fetchall()
    last: int | None = found[-1][-1] if len(found) == count else None
    readable, _ = _readable_rows(found, set() if named is None else named)
    return [one for one in readable if fits(one.row, wanted)], last


# Beside nobody else: whoever is below somebody names its root, and all in between are below it too.
_RESTS: Final = "resting AND id NOT IN (SELECT root FROM sessions WHERE parent IS NOT NULL)"


def at_start(connection: sqlite3.Connection, named: set[SessionId]) -> AtStart:
    """See `port.Store.at_start`."""
    # Whoever only reads may read a file in which nobody has noted yet who rests.
    rests = _RESTS if version_of(connection) >= _NOTES_WHO_RESTS else "FALSE"
    resting = f"SELECT id, phase = 'stopped', {_key(connection)} FROM sessions"
    connection.execute("BEGIN")
    try:
        still = connection.execute(f"{resting} WHERE {rests} ORDER BY number").fetchall()
        others = connection.execute(f"{_STORED} WHERE NOT ({rests}) ORDER BY number").fetchall()
        readable, damaged = _readable_rows(others, named)
        for one in damaged:
            still += connection.execute(f"{resting} WHERE id = ?", (one,))
    finally:
        connection.execute("COMMIT")
    return AtStart([Resting(*one) for one in still], readable)


def _key(connection: sqlite3.Connection) -> str:
    """The key that a session bears, as far as the file knows."""
    knows = version_of(connection) >= _NOTES_WHO_RESTS
    return "CASE WHEN archived THEN NULL ELSE key END" if knows else "NULL"


def _readable_rows(
    found: Iterable[Sequence[Any]], named: set[SessionId]
) -> tuple[list[Stored], list[SessionId]]:
    """Those of them that can be read, and who is damaged: that keeps nobody from the others."""
    readable: list[Stored] = []
    damaged: list[SessionId] = []
    for one in found:
        try:
            readable.append(_stored(one))
        except NotStorable as error:
            damaged.append(one[0])
            if one[0] not in named:
                logger.error("%s", error)  # noqa: TRY400 - what is wrong is said, where is no matter
                named.add(one[0])
    return readable, damaged


def raw_row(connection: sqlite3.Connection, session_id: SessionId) -> RawRow | None:
    """See `port.Store.raw_row`."""
    found = connection.execute(
        f"SELECT id, epoch, {_key(connection)}, root, CAST(row AS BLOB) FROM sessions WHERE id = ?",
        (session_id,),
    ).fetchone()
    return None if found is None else RawRow(*found)


def damaged(connection: sqlite3.Connection, besides: Collection[SessionId]) -> list[SessionId]:
    """See `port.Store.damaged`."""
    readable = frozenset(besides)
    there = [one for (one,) in connection.execute("SELECT id FROM sessions ORDER BY number")]
    return [one for one in there if one not in readable and _is_damaged(connection, one)]


def _is_damaged(connection: sqlite3.Connection, session_id: SessionId) -> bool:
    try:
        read_one(connection, session_id)
    except NotStorable:
        return True
    return False


# What a row has in it that shows the badge, for SQL: to have all rows decoded only to be passed
# over takes a hundred times as long. What cannot be read shows no badge.
_SIGNS_OF_BADGES: Final = {
    "failed": f"json_extract(row, '$.stop_reason') IN {tuple(sorted(FAILED_REASONS))}",
    "waiting-for-auth": "json_extract(row, '$.remembered.auth') IS NOT NULL",
    "waiting-for-you": "json_extract(row, '$.turn.requests') IS NOT NULL",
    "hung": "json_extract(row, '$.turn.silence') = 'stalled'",
    "unhealthy": "json_extract(row, '$.zombie') IS NOT NULL",
}


def _conditions(wanted: Filter) -> tuple[str, Values]:
    """What the columns can say of it: never less than fits, sometimes more."""
    if wanted is EVERYTHING:
        return "", []
    given: list[tuple[str, object]] = [
        ("agent = ?", wanted.agent),
        ("channel = ?", wanted.channel),
        ("peer = ?", wanted.peer),
        ("phase = ?", wanted.phase),
        ("parent = ?", wanted.parent),
        ("root = ?", wanted.root),
        ("workspace = ?", wanted.workspace),
        ("archived = ?", None if wanted.archived is None else int(wanted.archived)),
        ("instr(label, ?) > 0", None if wanted.text is None else wanted.text.casefold()),
        ("instr(tags, ?) > 0", None if wanted.tag is None else encode_text(wanted.tag)),
        ("created_at > ?", wanted.created_after),
        ("created_at < ?", wanted.created_before),
        ("updated_at > ?", wanted.updated_after),
        ("updated_at < ?", wanted.updated_before),
    ]
    conditions = [condition for condition, value in given if value is not None]
    values: Values = [value for _, value in given if value is not None]
    phases = PHASES_OF_BADGES.get(wanted.badge or "", ())
    if phases:
        conditions.append(f"phase IN ({', '.join('?' * len(phases))})")
        values += phases
    sign = _SIGNS_OF_BADGES.get(wanted.badge or "")
    if sign is not None:
        conditions.append(f"CASE WHEN json_valid(row) THEN {sign} END")
    return "".join(f" AND {condition}" for condition in conditions), values


def search(
    connection: sqlite3.Connection,
    words: str,
    session_id: SessionId | None,
    before: int | None,
    limit: int,
) -> list[Hit]:
    """See `port.Store.search`."""
    # Quoted one by one: then no word means anything to the query's own language.
    query = " ".join(f'"{word}"' for word in words_of_text(words))
    if not query:
        return []
    found = connection.execute(
        f"""
        SELECT records.position, session_id, seq, at, turn_id, kind, CAST(body AS BLOB)
        FROM words JOIN records ON records.position = words.rowid
        WHERE
            words MATCH ?1
            AND (?2 IS NULL OR session_id = ?2)
            AND (?3 IS NULL OR words.rowid < ?3)
            AND {_IS_WHOLE}
        ORDER BY words.rowid DESC LIMIT ?4
        """,
        (query, session_id, before, limit),
    )
    # Our own: SQLite's takes time with the square of how often a word is in the text.
    wanted = words_of(words)
    return [
        Hit(position, whose, seq, at, turn_id, kind, snippet(text, wanted))
        for position, whose, seq, at, turn_id, kind, body in found
        if (text := text_in(body)) is not None
    ]


def kept(connection: sqlite3.Connection, scope: str, key: str) -> Kept | None:
    """See `port.Store.kept`."""
    found = connection.execute(
        "SELECT fingerprint, answer FROM kept WHERE scope = ? AND key = ?", (scope, key)
    ).fetchone()
    if found is None:
        return None
    try:
        return Kept(scope, key, found[0], decode_plain(found[1]))
    except ValueError as error:
        raise NotStorable(
            f"what was answered to the idempotency key {shown(key)} cannot be read: {error}",
            hint="look whether it was done; if not, ask for it with another key",
        ) from error


def sizes(connection: sqlite3.Connection) -> dict[SessionId, int]:
    """See `port.Store.sizes`."""
    return dict(
        connection.execute(
            f"""
            SELECT session_id, sum(length(CAST(body AS BLOB))) FROM records WHERE {_IS_WHOLE}
            GROUP BY session_id
            """
        )
    )


def processes(connection: sqlite3.Connection) -> list[Process]:
    """See `port.Store.processes`."""
    found = connection.execute("SELECT session_id, pid, start_time, boot_id FROM processes")
    return [Process(*one) for one in found]
