"""Wear of the full-text index, and its rebuild from the records.

Every merge of the whole index adds a level to its structure, and SQLite (seen in 3.40) does not
stop at the last one that it can read: from 2,001 levels on, each use of the index fails as damaged.
Merges run after deletions, so a store with many deletions gets there.

Rule 1: no merge of the whole index begins at MAX_LEVELS or above. The index is rebuilt instead: at
        once if it is small, else when the store is opened next.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from supervisor.store.tokenizer import INDEXED_KINDS, index_text

from .files import transaction

# Half of what SQLite can read: a store that was worn by an earlier version is rebuilt in time.
MAX_LEVELS: Final = 1_000
# A rebuild of this many records takes less than a second.
MAX_RECORDS_AT_ONCE: Final = 20_000
_BATCH: Final = 500

# The structure of the index is the row 10: 4 bytes of a cookie, then the number of levels.
_STRUCTURE: Final = "SELECT block FROM words_data WHERE id = 10"
_COOKIE_BYTES: Final = 4
_UNREADABLE_LEVELS: Final = 2_001
# An index without tokens, as FTS5 itself writes it.
_EMPTY: Final = (
    "DELETE FROM words_data",
    "DELETE FROM words_idx",
    "DELETE FROM words_docsize",
    "INSERT INTO words_data (id, block) VALUES (1, x''), (10, x'00000000000000')",
)


def level_count(connection: sqlite3.Connection) -> int:
    """Return the number of levels of the index; it can be read even if the index cannot."""
    found = connection.execute(_STRUCTURE).fetchone()
    count = 0
    # A number of up to 14 bits in the format of SQLite: 7 bits in each byte, the highest first.
    for byte in found[0][_COOKIE_BYTES : _COOKIE_BYTES + 2] if found is not None else b"":
        count = count << 7 | byte & 0x7F
        if not byte & 0x80:
            break
    return count


def is_worn(connection: sqlite3.Connection) -> bool:
    """Return True if a merge of the whole index must not begin."""
    return level_count(connection) >= MAX_LEVELS


def rebuild_if_small(connection: sqlite3.Connection) -> bool:
    """Rebuild the index if that takes less than a second; return True if it was rebuilt."""
    (count,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM records LIMIT ?)", (MAX_RECORDS_AT_ONCE + 1,)
    ).fetchone()
    if count > MAX_RECORDS_AT_ONCE:
        return False
    rebuild(connection)
    return True


def rebuild(connection: sqlite3.Connection) -> None:
    """Replace the index by one with the tokens of all records, in one transaction."""
    with transaction(connection):
        if level_count(connection) >= _UNREADABLE_LEVELS:
            for statement in _EMPTY:
                connection.execute(statement)
        else:
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
        after = 0
        while found := _records_after(connection, after):
            connection.executemany(
                "INSERT INTO words (rowid, text) VALUES (?, ?)",
                [(position, index_text(body)) for position, body in found],
            )
            after = found[-1][0]


def _records_after(connection: sqlite3.Connection, position: int) -> list[tuple[int, bytes]]:
    # As bytes: a damaged body has no tokens, and does not stop the others from being indexed.
    return connection.execute(
        "SELECT position, CAST(body AS BLOB) FROM records"
        " WHERE position > ? AND kind IN (?, ?) ORDER BY position LIMIT ?",
        (position, *INDEXED_KINDS, _BATCH),
    ).fetchall()
