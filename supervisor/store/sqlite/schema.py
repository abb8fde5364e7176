"""What is in the file, and how an older file becomes a newer one.

Rule 1: forward only. A step that was released never changes; what comes next is another step.
Rule 2: `PRAGMA user_version` says how many steps were taken, in the same transaction as the step.
Rule 3: before the first step that changes an existing file, it is copied.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from supervisor.core.errors import ConfigError, StoreTooNew
from supervisor.store.words import SAID, indexed

# "undr": by this a file knows that it is ours.
APPLICATION_ID: Final = 0x756E6472
_HEADER_BYTES: Final = 100
# So many records are read at once by a step that has to look at all of them.
_AT_ONCE: Final = 1_000


def _first(connection: sqlite3.Connection) -> None:
    """Sessions, records, answers that are kept, rows of before, processes, and words."""
    for statement in (
        # `row` is all of it, as JSON. What lists are filtered by stands beside it again.
        """
        CREATE TABLE sessions (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL,
            row TEXT NOT NULL,
            agent TEXT NOT NULL,
            phase TEXT NOT NULL,
            archived INTEGER NOT NULL,
            channel TEXT,
            peer TEXT,
            parent TEXT,
            root TEXT NOT NULL,
            workspace TEXT,
            label TEXT NOT NULL,
            tags TEXT NOT NULL,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL
        ) STRICT
        """,
        "CREATE INDEX sessions_by_phase ON sessions (phase, number)",
        "CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL",
        "CREATE INDEX sessions_by_root ON sessions (root)",
        # Small enough to be looked through: whoever looks for part of a name has to.
        "CREATE INDEX sessions_by_label ON sessions (label, tags)",
        # Not STRICT: what is wrong in a record that somebody else has touched is found, not hidden.
        """
        CREATE TABLE records (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            at REAL NOT NULL,
            turn_id TEXT,
            kind TEXT NOT NULL,
            body TEXT NOT NULL
        )
        """,
        "CREATE UNIQUE INDEX records_by_number ON records (session_id, seq)",
        """
        CREATE INDEX records_of_children ON records (session_id, seq)
        WHERE kind IN ('child_ended', 'child_started')
        """,
        """
        CREATE TABLE kept (
            scope TEXT NOT NULL,
            key TEXT NOT NULL,
            session_id TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            answer TEXT NOT NULL,
            PRIMARY KEY (scope, key)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX kept_by_session ON kept (session_id)",
        """
        CREATE TABLE snapshots (
            session_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            row TEXT NOT NULL,
            PRIMARY KEY (session_id, seq)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE processes (
            boot_id TEXT NOT NULL,
            pid INTEGER NOT NULL,
            start_time INTEGER NOT NULL,
            session_id TEXT NOT NULL,
            PRIMARY KEY (boot_id, pid, start_time)
        ) STRICT, WITHOUT ROWID
        """,
        # By position, the words that were said, as `store.words` compares them. The words alone:
        # the text is in the records. What is a word was decided before they come here, so that
        # nothing but the blank between them means anything.
        """
        CREATE VIRTUAL TABLE words USING fts5 (
            text, content = '', tokenize = "ascii tokenchars '_'"
        )
        """,
        f"PRAGMA application_id = {APPLICATION_ID}",
    ):
        connection.execute(statement)


def _second(connection: sqlite3.Connection) -> None:
    """Whom a start need not read, and who bears which key.

    `resting` is what `core.recovery.rests` says of the row. For rows that are there already it is
    said in SQL, which stays as it is when the rows of later programs have become others. What is
    left out of a row is empty; a row that cannot be read does not rest.
    """
    connection.execute("ALTER TABLE sessions ADD COLUMN resting INTEGER NOT NULL DEFAULT 0")
    connection.execute("ALTER TABLE sessions ADD COLUMN key TEXT")
    connection.execute(
        """
        UPDATE sessions SET resting = 1
        WHERE CASE WHEN json_valid(row) THEN
            phase IN ('stopped', 'suspended')
            AND parent IS NULL
            AND json_extract(row, '$.lineage.expires_at') IS NULL
            AND json_extract(row, '$.agent') IS NULL
            AND json_extract(row, '$.zombie') IS NULL
            AND json_extract(row, '$.inputs') IS NULL
            AND coalesce(json_extract(row, '$.family.open_children'), 0) = 0
            AND json_extract(row, '$.limits.turns') IS NULL
            AND json_extract(row, '$.limits.tokens') IS NULL
            AND json_extract(row, '$.limits.cost') IS NULL
            AND json_extract(row, '$.limits.wall_seconds') IS NULL
        END
        """
    )
    # Not in SQL: its JSON ends a text at a NUL.
    connection.create_function("understudy_key", 1, _key_of, deterministic=True)
    connection.execute(
        "UPDATE sessions SET key = understudy_key(row)"
        " WHERE channel IS NOT NULL AND json_valid(row)"
    )


def _key_of(row: str) -> str:
    """The text form of a row's key, as it was when rows came to have it beside them."""
    key = json.loads(row)["key"]
    parts = [key[name] for name in ("agent", "channel", "peer", "thread") if key.get(name)]
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


# An input's id, in the record of its acceptance; none in one that is damaged, which must be
# mended and keeps nobody from the rest.
INPUT_ID: Final = "CASE WHEN json_valid(body) THEN body ->> '$.input_id' END"


def _third(connection: sqlite3.Connection) -> None:
    """What became of an input is found without reading all that its session has ever done."""
    connection.execute(
        f"""
        CREATE INDEX records_of_inputs ON records (session_id, {INPUT_ID})
        WHERE kind = 'input_accepted'
        """
    )


def _fourth(connection: sqlite3.Connection) -> None:
    """Of whom only a part is here."""
    # Sessions of which a part is here and nobody sees anything: where its records begin, of one
    # that is brought; NULL for one that was deleted.
    connection.execute(
        """
        CREATE TABLE unfinished (
            session_id TEXT PRIMARY KEY NOT NULL, arrives_from INTEGER
        ) STRICT, WITHOUT ROWID
        """
    )


def _fifth(connection: sqlite3.Connection) -> None:
    """Words are told apart in another way, so the index of them is made anew."""
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    after = 0
    while True:
        # As bytes: a body that is damaged is nobody's words, and keeps nobody from the rest.
        found = connection.execute(
            """
            SELECT position, CAST(body AS BLOB) FROM records
            WHERE position > ? AND kind IN (?, ?) ORDER BY position LIMIT ?
            """,
            (after, *SAID, _AT_ONCE),
        ).fetchall()
        if not found:
            return
        connection.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            [(position, indexed(body)) for position, body in found],
        )
        after = found[-1][0]


STEPS: Final[tuple[Callable[[sqlite3.Connection], None], ...]] = (
    _first,
    _second,
    _third,
    _fourth,
    _fifth,
)
VERSION: Final = len(STEPS)


def version_of(connection: sqlite3.Connection) -> int:
    """How many steps the file has taken; 0 for one in which nothing is yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def refuse_unless_ours(path: Path, *, may_be_new: bool) -> None:
    """Raise if the file is no store of ours, or one of a later version.

    Only its first bytes are read: not even a reading SQLite leaves somebody else's file alone.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    wal = path.with_name(f"{path.name}-wal")
    is_unfinished = wal.exists() and wal.stat().st_size > 0  # then the WAL knows better
    if may_be_new and (is_unfinished or not header):
        return
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
        raise _not_ours(path)
    changes, version, application = (
        int.from_bytes(header[place : place + 4], "big") for place in (40, 60, 68)
    )
    if application == APPLICATION_ID:
        _refuse_if_newer(version, path)
        return
    is_new = application == version == changes == 0
    if not may_be_new or not is_new:
        raise _not_ours(path)


def refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """The same once more, when it is open and its WAL was looked at."""
    version = version_of(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (tables or version):
        raise _not_ours(path)
    _refuse_if_newer(version, path)


def _not_ours(path: Path) -> ConfigError:
    return ConfigError(
        f"{path.name} is no store of ours", hint="name another file, or one that does not exist yet"
    )


def _refuse_if_newer(version: int, path: Path) -> None:
    if version > VERSION:
        raise StoreTooNew(
            f"{path.name} has version {version}, this program knows {VERSION}",
            hint="open it with the version of understudy that wrote it, or a later one",
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Take all the steps that the file has not taken, each of them wholly or not at all."""
    for number in range(version_of(connection) + 1, VERSION + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            STEPS[number - 1](connection)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
