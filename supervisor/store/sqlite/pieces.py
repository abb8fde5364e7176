"""Records and their words, put in and taken out: what is large in pieces, others in between.

Rule 1: a session of which only a part is here, because it is brought or because it is deleted, is
        noted in `unfinished`, and nobody sees anything of it.
Rule 2: with the commit that brings its row it is whole; before that it may go at any time. So who
        is killed half way has deleted what was to be deleted, and has brought nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.store.codec import encode_plain
from supervisor.store.port import Leftovers, Write, refuse_unless_own
from supervisor.store.words import SAID, indexed

from .files import transaction

Values: TypeAlias = tuple[Any, ...]

_INSERT_RECORD: Final = """
    INSERT INTO records (session_id, seq, at, turn_id, kind, body, position)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
# Many in one statement, which counts positions once for all of them, and lets go of the
# interpreter once, and not once for each: a tenth to a fifth of what it takes to insert them.
_AT_ONCE: Final = 32
_INSERT_RECORDS: Final = _INSERT_RECORD + ", (?, ?, ?, ?, ?, ?, ?)" * (_AT_ONCE - 1)
_INSERT_WORDS: Final = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_DELETE_WORDS: Final = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)"
_LAST_POSITION: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'records'"
# Where it is kept that the index has words in it of what was deleted; no session has such an id.
_UNTIDY: Final = "~"
_NOTE_UNTIDY: Final = """
    INSERT OR REPLACE INTO kept (scope, key, session_id, fingerprint, answer)
    VALUES (?1, '', ?1, '', '{}')
"""
# So much of a session is deleted in one go: some 30 ms, most of it for the words.
_PIECE_RECORDS: Final = 250
_PIECE_LETTERS: Final = 100_000
# So many pages of the index are written anew in one go.
_PIECE_PAGES: Final = 200
# By fewer changes than that SQLite says that there was nothing to merge.
_MERGED: Final = 2


# Putting in ------------------------------------------------------------------------------------


def values_of(record: Record) -> Values:
    """A record as it goes into the file."""
    return (
        record.session_id,
        record.seq,
        record.at,
        record.turn_id,
        record.kind,
        encode_plain(record.body),
    )


def insert(connection: sqlite3.Connection, records: Sequence[Values]) -> None:
    """With their positions, by which the words that are said in them are found."""
    first = _next_position(connection)
    placed = [(*record, place) for place, record in enumerate(records, first)]
    rest = len(placed) % _AT_ONCE
    for start in range(0, len(placed) - rest, _AT_ONCE):
        some = placed[start : start + _AT_ONCE]
        connection.execute(_INSERT_RECORDS, list(chain.from_iterable(some)))
    connection.executemany(_INSERT_RECORD, placed[len(placed) - rest :])
    said = [(record[6], indexed(record[5])) for record in placed if record[4] in SAID]
    if said:
        connection.executemany(_INSERT_WORDS, said)


def _next_position(connection: sqlite3.Connection) -> int:
    found = connection.execute(_LAST_POSITION).fetchone()
    return 1 if found is None else int(found[0]) + 1


def bring(connection: sqlite3.Connection, session_id: SessionId, records: Sequence[Record]) -> None:
    """See `port.Store.bring`."""
    try:
        refuse_unless_own(Write(session_id, 0, tuple(records)))
        values = [values_of(record) for record in records]
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotStorable(
            f"session {session_id} has something that cannot be stored: {error}",
            hint="this is a defect: what comes in is checked at the door",
        ) from error
    with transaction(connection):
        last = arrived(connection, session_id)
        there = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if there is not None or [one.seq for one in records] != list(
            range(last + 1, last + 1 + len(records))
        ):
            raise NotStorable(
                f"session {session_id} is there, or has {last} records",
                hint="bring one that is not there yet, from its first record on",
            )
        connection.execute(
            "INSERT OR IGNORE INTO unfinished (session_id, arrives_from) VALUES (?, ?)",
            (session_id, _next_position(connection)),
        )
        insert(connection, values)


def arrived(connection: sqlite3.Connection, session_id: SessionId) -> int:
    """How many records were brought of a session that is not there; inside a transaction.

    What is left of one that was deleted, and that comes again, goes first.
    """
    found = connection.execute(
        "SELECT arrives_from FROM unfinished WHERE session_id = ?", (session_id,)
    ).fetchone()
    if found is None:
        return 0
    if found[0] is None:
        while not _clear(connection, session_id):
            pass
        return 0
    (last,) = connection.execute(
        "SELECT max(seq) FROM records WHERE session_id = ?", (session_id,)
    ).fetchone()
    return int(last)


def finish(connection: sqlite3.Connection, session_id: SessionId) -> None:
    """All of it was brought, and everybody may see it; inside a transaction."""
    connection.execute("DELETE FROM unfinished WHERE session_id = ?", (session_id,))


# Taking out ------------------------------------------------------------------------------------


def remove(connection: sqlite3.Connection, session_id: SessionId) -> None:
    """Nobody sees anything of it any more, and a piece of it is gone; inside a transaction.

    Nothing is left of it, in any table, when `clear_away` says so. What is small is gone at once.
    """
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    connection.execute("DELETE FROM snapshots WHERE session_id = ?", (session_id,))
    # Also what was kept for its own requests by those whom it made: their scope begins with its id.
    connection.execute(
        """
        DELETE FROM kept
        WHERE session_id = ?1 OR scope = ?1 OR substr(scope, 1, length(?1) + 1) = ?1 || '/'
        """,
        (session_id,),
    )
    connection.execute(
        "INSERT OR REPLACE INTO unfinished (session_id, arrives_from) VALUES (?, NULL)",
        (session_id,),
    )
    _clear(connection, session_id)


def _clear(connection: sqlite3.Connection, session_id: SessionId) -> bool:
    """Take out the next piece of its records; gives whether that was the last one."""
    found = connection.execute(
        "SELECT position, kind, CAST(body AS BLOB) FROM records"
        " WHERE session_id = ? ORDER BY position LIMIT ?",
        (session_id, _PIECE_RECORDS),
    )
    piece: list[tuple[int, str, Any]] = []
    letters = 0
    for one in found:
        piece.append(one)
        letters += len(one[2])
        if letters > _PIECE_LETTERS:
            break
    found.close()
    said = [(place, indexed(body)) for place, kind, body in piece if kind in SAID]
    if said:
        connection.executemany(_DELETE_WORDS, said)
        connection.execute(_NOTE_UNTIDY, (_UNTIDY,))
    connection.executemany(
        "DELETE FROM records WHERE position = ?", [(place,) for place, _, _ in piece]
    )
    left = connection.execute(
        "SELECT 1 FROM records WHERE session_id = ? LIMIT 1", (session_id,)
    ).fetchone()
    if left is None:
        finish(connection, session_id)
    return left is None


def clear_away(connection: sqlite3.Connection) -> bool:
    """See `port.Store.clear_away`."""
    with transaction(connection):
        found = connection.execute(
            "SELECT session_id FROM unfinished WHERE arrives_from IS NULL LIMIT 1"
        ).fetchone()
        if found is not None:
            _clear(connection, found[0])
    left = connection.execute(
        "SELECT 1 FROM unfinished WHERE arrives_from IS NULL LIMIT 1"
    ).fetchone()
    return left is not None


def leftovers(connection: sqlite3.Connection) -> Leftovers:
    """See `port.Store.leftovers`."""
    unfinished = connection.execute("SELECT 1 FROM unfinished").fetchone() is not None
    if unfinished:
        with transaction(connection):
            arriving = connection.execute(
                "SELECT session_id FROM unfinished WHERE arrives_from IS NOT NULL"
            ).fetchall()
            for (session_id,) in arriving:
                remove(connection, session_id)
    return Leftovers(unfinished, is_untidy(connection))


# The index -------------------------------------------------------------------------------------


def is_untidy(connection: sqlite3.Connection) -> bool:
    """Whether something was deleted, and nobody has tidied since, in this life or one before."""
    found = connection.execute("SELECT 1 FROM kept WHERE scope = ?", (_UNTIDY,)).fetchone()
    return found is not None


def tidy(connection: sqlite3.Connection, *, begin: bool) -> bool:
    """See `port.Store.tidy`: the index has the words of what was deleted until it is made anew.

    `begin`: with all that is in it now. Gives whether there is more to do.
    """
    pages = -_PIECE_PAGES if begin else _PIECE_PAGES
    with transaction(connection):
        before = connection.total_changes
        connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
        if connection.total_changes - before >= _MERGED:
            return True
        connection.execute("DELETE FROM kept WHERE scope = ?", (_UNTIDY,))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return False


def tidy_all(connection: sqlite3.Connection) -> None:
    """All of it at once, for who has no more time."""
    with transaction(connection):
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute("DELETE FROM kept WHERE scope = ?", (_UNTIDY,))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
