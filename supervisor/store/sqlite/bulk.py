"""Insert and delete records and their tokens, in chunks if large, so that other writes can run.

Rule 1: a session that is only partly stored, because it is being inserted or deleted, is listed in
        `unfinished`, and no reader sees it.
Rule 2: the commit of its row makes an inserted session complete. Before that commit, it can be
        removed at any time. So a kill half way leaves neither half a deletion nor half an insert.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import orjson

from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId
from supervisor.store.port import Unfinished, Write
from supervisor.store.tokenizer import INDEXED_KINDS, index_text, index_tokens
from supervisor.store.write_checks import (
    ENCODING_ERRORS,
    not_storable,
    refuse_chunk,
    validate_records,
)

from . import word_index
from .files import transaction

Values: TypeAlias = tuple[Any, ...]

_INSERT_RECORD: Final = """
    INSERT INTO records (session_id, seq, at, turn_id, kind, body, position)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
# Many rows in one statement: SQLite updates the position counter once, and the interpreter lock is
# released once. Saves 10 to 20 % of the insert.
_ROWS_PER_INSERT: Final = 32
_COLUMNS: Final = 7
_COLUMNS_PER_INSERT: Final = _ROWS_PER_INSERT * _COLUMNS
_INSERT_RECORDS: Final = _INSERT_RECORD + ", (?, ?, ?, ?, ?, ?, ?)" * (_ROWS_PER_INSERT - 1)
_INSERT_WORDS: Final = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_DELETE_WORDS: Final = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)"
_LAST_POSITION: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'records'"
# The row of `meta` that exists while the index has tokens of deleted records.
_MARK_INDEX_STALE: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES ('stale_index', '1')"
_MARK_INDEX_CLEAN: Final = "DELETE FROM meta WHERE name = 'stale_index'"
# Maximum size of one chunk of a deletion: some 30 ms, most of it for the full-text index.
_CHUNK_RECORDS: Final = 250
_CHUNK_CHARS: Final = 100_000
# Pages of the index that one step of an optimization merges.
_CHUNK_PAGES: Final = 200
# With fewer changes than this a merge had nothing left to do (FTS5 documents it so).
_MIN_MERGE_CHANGES: Final = 2


# Insert ---------------------------------------------------------------------------------------


class EncodedRecords:
    """Records as parameters of `insert_records`, without their positions."""

    __slots__ = ("columns", "tokens")

    def __init__(self) -> None:
        # The columns of one record after the other, and None for each position.
        self.columns: list[Any] = []
        # The tokens of the texts that are searched, each with the index of its record.
        self.tokens: list[tuple[int, str]] = []

    def append_all(self, others: EncodedRecords) -> None:
        """Add the records of another one behind these."""
        if others.tokens:
            before = len(self.columns) // _COLUMNS
            self.tokens += [(before + index, tokens) for index, tokens in others.tokens]
        self.columns += others.columns


def encode_records(write: Write) -> EncodedRecords:
    """Return the records of a write; raise one of `ENCODING_ERRORS` if one cannot be stored."""
    validate_records(write)
    encoded = EncodedRecords()
    columns = encoded.columns
    for index, record in enumerate(write.records):
        body, kind = record.body, record.kind
        columns += (
            record.session_id,
            record.seq,
            record.at,
            record.turn_id,
            kind,
            orjson.dumps(body).decode(),
            None,
        )
        if kind in INDEXED_KINDS:
            text = body.get("text")
            encoded.tokens.append((index, index_tokens(text)))
    return encoded


def insert_records(connection: sqlite3.Connection, records: EncodedRecords) -> None:
    """Insert records with their positions, and the tokens of their texts into the index."""
    columns = records.columns
    first = _next_position(connection)
    columns[_COLUMNS - 1 :: _COLUMNS] = range(first, first + len(columns) // _COLUMNS)
    whole = len(columns) - len(columns) % _COLUMNS_PER_INSERT
    for start in range(0, whole, _COLUMNS_PER_INSERT):
        connection.execute(_INSERT_RECORDS, columns[start : start + _COLUMNS_PER_INSERT])
    connection.executemany(
        _INSERT_RECORD,
        [columns[start : start + _COLUMNS] for start in range(whole, len(columns), _COLUMNS)],
    )
    if records.tokens:
        tokens = [(first + index, tokens) for index, tokens in records.tokens]
        connection.executemany(_INSERT_WORDS, tokens)


def _next_position(connection: sqlite3.Connection) -> int:
    found = connection.execute(_LAST_POSITION).fetchone()
    return 1 if found is None else int(found[0]) + 1


def insert_chunk(
    connection: sqlite3.Connection, session_id: SessionId, records: Sequence[AnyRecord]
) -> None:
    """Insert the next records of a large new session; see `port.Store.insert_chunk`."""
    try:
        encoded = encode_records(Write(session_id, 0, tuple(records)))
    except ENCODING_ERRORS as error:
        raise not_storable(session_id, error) from error
    with transaction(connection):
        last = inserted_count(connection, session_id)
        there = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
        refuse_chunk(session_id, records, last_seq=last, is_stored=there is not None)
        connection.execute(
            "INSERT OR IGNORE INTO unfinished (session_id, arrives_from) VALUES (?, ?)",
            (session_id, _next_position(connection)),
        )
        insert_records(connection, encoded)


def inserted_count(connection: sqlite3.Connection, session_id: SessionId) -> int:
    """Return the number of records inserted for a session without a row; inside a transaction.

    If a deleted session had the same id, its remaining records are purged first.
    """
    found = connection.execute(
        "SELECT arrives_from FROM unfinished WHERE session_id = ?", (session_id,)
    ).fetchone()
    if found is None:
        return 0
    if found[0] is None:
        while not _purge_chunk(connection, session_id):
            pass
        return 0
    (last,) = connection.execute(
        "SELECT max(seq) FROM records WHERE session_id = ?", (session_id,)
    ).fetchone()
    return int(last)


def mark_complete(connection: sqlite3.Connection, session_id: SessionId) -> None:
    """Make an inserted session visible, or drop a purged one from `unfinished`.

    The caller has opened a transaction.
    """
    connection.execute("DELETE FROM unfinished WHERE session_id = ?", (session_id,))


# Delete ---------------------------------------------------------------------------------------


def remove_session(connection: sqlite3.Connection, session_id: SessionId) -> None:
    """Hide a session and delete its first chunk; inside a transaction.

    `purge_deleted` deletes the rest. A small session is deleted completely at once.
    """
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    connection.execute("DELETE FROM snapshots WHERE session_id = ?", (session_id,))
    # Also the replies to its own spawn requests: these rows name the child, and it as the owner.
    # Two statements, because each uses an index; an OR over both columns does not.
    connection.execute("DELETE FROM kept WHERE session_id = ?", (session_id,))
    connection.execute("DELETE FROM kept WHERE owner = ? AND owner <> ''", (session_id,))
    connection.execute(
        "INSERT OR REPLACE INTO unfinished (session_id, arrives_from) VALUES (?, NULL)",
        (session_id,),
    )
    _purge_chunk(connection, session_id)


def _purge_chunk(connection: sqlite3.Connection, session_id: SessionId) -> bool:
    """Delete the next chunk of a session's records; return True if it was the last chunk."""
    found = connection.execute(
        "SELECT position, kind, CAST(body AS BLOB) FROM records"
        " WHERE session_id = ? ORDER BY position LIMIT ?",
        (session_id, _CHUNK_RECORDS),
    )
    chunk: list[tuple[int, str, Any]] = []
    characters = 0
    for one in found:
        chunk.append(one)
        characters += len(one[2])
        if characters > _CHUNK_CHARS:
            break
    found.close()
    tokens = [
        (position, index_text(body)) for position, kind, body in chunk if kind in INDEXED_KINDS
    ]
    if tokens:
        connection.executemany(_DELETE_WORDS, tokens)
        connection.execute(_MARK_INDEX_STALE)
    connection.executemany(
        "DELETE FROM records WHERE position = ?", [(position,) for position, _, _ in chunk]
    )
    left = connection.execute(
        "SELECT 1 FROM records WHERE session_id = ? LIMIT 1", (session_id,)
    ).fetchone()
    if left is None:
        mark_complete(connection, session_id)
    return left is None


def purge_deleted(connection: sqlite3.Connection) -> bool:
    """Delete one chunk of a deleted session; see `port.Store.purge_deleted`."""
    with transaction(connection):
        found = connection.execute(
            "SELECT session_id FROM unfinished WHERE arrives_from IS NULL LIMIT 1"
        ).fetchone()
        if found is not None:
            _purge_chunk(connection, found[0])
    left = connection.execute(
        "SELECT 1 FROM unfinished WHERE arrives_from IS NULL LIMIT 1"
    ).fetchone()
    return left is not None


def find_unfinished(connection: sqlite3.Connection) -> Unfinished:
    """Delete partly inserted sessions and return the remaining work.

    See `port.Store.find_unfinished`.
    """
    unfinished = connection.execute("SELECT 1 FROM unfinished").fetchone() is not None
    if unfinished:
        with transaction(connection):
            arriving = connection.execute(
                "SELECT session_id FROM unfinished WHERE arrives_from IS NOT NULL"
            ).fetchall()
            for (session_id,) in arriving:
                remove_session(connection, session_id)
    return Unfinished(unfinished, is_index_stale(connection))


# The index -------------------------------------------------------------------------------------


def is_index_stale(connection: sqlite3.Connection) -> bool:
    """Return True if the index has tokens of deleted records, also from an earlier process."""
    found = connection.execute("SELECT 1 FROM meta WHERE name = 'stale_index'").fetchone()
    return found is not None


def optimize_index(connection: sqlite3.Connection, *, begin: bool) -> bool:
    """Run one step of merging the index, which removes the tokens of deleted records.

    `begin` starts a merge of the whole current index. Return True if another step is needed. See
    `port.Store.optimize_index`.
    """
    if begin and word_index.is_worn(connection):
        _rebuild_worn_index(connection)
        return False
    pages = -_CHUNK_PAGES if begin else _CHUNK_PAGES
    with transaction(connection):
        before = connection.total_changes
        connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
        if connection.total_changes - before >= _MIN_MERGE_CHANGES:
            return True
        connection.execute(_MARK_INDEX_CLEAN)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return False


def optimize_whole_index(connection: sqlite3.Connection) -> None:
    """Merge the whole index in one step, when the store is closed."""
    if word_index.is_worn(connection):
        _rebuild_worn_index(connection)
        return
    with transaction(connection):
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute(_MARK_INDEX_CLEAN)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _rebuild_worn_index(connection: sqlite3.Connection) -> None:
    """Rebuild a small index; a large one stays stale until the store is opened next."""
    if word_index.rebuild_if_small(connection):
        connection.execute(_MARK_INDEX_CLEAN)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
