"""Schema of the store: the migrations from each version to the next.

Rule 1: forward only. A released migration never changes; a change is another migration.
Rule 2: `schema.migrate` applies a migration, in a transaction of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from supervisor.store.tokenizer import INDEXED_KINDS, index_text

from .reply_scope import OLD_OWNER_SQL, OLD_SCOPE_SQL, OLD_STALE_INDEX_SCOPE

if TYPE_CHECKING:  # about 150 ms, see rule 3 of `schema`
    from sqlite_utils import Database

# "undr": marks a file as a store of ours.
APPLICATION_ID: Final = 0x756E6472
# Records read at once by a migration that has to read all of them.
_REINDEX_BATCH: Final = 1_000


def _version_1(db: Database) -> None:
    """Create sessions, records, idempotent replies, snapshots, processes, full-text index."""
    for statement in (
        # `row` is the whole session, as JSON. The columns that lists filter by repeat parts of it.
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
        # Small enough to scan: a search for part of a name has to.
        "CREATE INDEX sessions_by_label ON sessions (label, tags)",
        # Not STRICT: a value of the wrong type in a record that another program changed is
        # reported, not hidden.
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
        # By position, the tokens of user and agent text, as `store.tokenizer` compares them. The
        # text itself is only in the records. The tokenizer has split it already, so here only the
        # blank separates tokens.
        """
        CREATE VIRTUAL TABLE words USING fts5 (
            text, content = '', tokenize = "ascii tokenchars '_'"
        )
        """,
        f"PRAGMA application_id = {APPLICATION_ID}",
    ):
        db.execute(statement)


def _version_2(db: Database) -> None:
    """Add the columns `resting` (start-up need not read the row) and `key`.

    `resting` is `core.recovery.needs_no_recovery` of the row. For existing rows it is computed in
    SQL, so that this migration does not change when a later program changes the rows. A field left
    out of a row is empty. For a row that cannot be read, `resting` is false.
    """
    db.execute("ALTER TABLE sessions ADD COLUMN resting INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE sessions ADD COLUMN key TEXT")
    db.execute(
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
    # Not in SQL: SQLite's JSON functions end a text at a NUL.
    db.register_function(_key_text, name="understudy_key", deterministic=True)
    db.execute(
        "UPDATE sessions SET key = understudy_key(row)"
        " WHERE channel IS NOT NULL AND json_valid(row)"
    )


def _key_text(row: str) -> str:
    """Return the text form of a row's key, as version 2 defined it."""
    key = json.loads(row)["key"]
    parts = [key[name] for name in ("agent", "channel", "peer", "thread") if key.get(name)]
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


# The id of an input, in its `input_accepted` record. NULL in a damaged record, so a damaged
# record does not make the index, or a read of other records, fail.
INPUT_ID_SQL: Final = "CASE WHEN json_valid(body) THEN body ->> '$.input_id' END"


def _version_3(db: Database) -> None:
    """Index accepted inputs by id, so that a lookup does not read the whole session."""
    db.execute(
        f"""
        CREATE INDEX records_of_inputs ON records (session_id, {INPUT_ID_SQL})
        WHERE kind = 'input_accepted'
        """
    )


def _version_4(db: Database) -> None:
    """Create `unfinished`: sessions of which only a part is stored."""
    # No reader sees a session listed here. `arrives_from` is the position of the first record of a
    # session that is being inserted; NULL for a deleted one whose records are not all purged.
    db.execute(
        """
        CREATE TABLE unfinished (
            session_id TEXT PRIMARY KEY NOT NULL, arrives_from INTEGER
        ) STRICT, WITHOUT ROWID
        """
    )


def _version_5(db: Database) -> None:
    """Rebuild the full-text index, because the tokenizer changed."""
    db.execute("INSERT INTO words (words) VALUES ('delete-all')")
    after = 0
    while True:
        # As bytes: a damaged body has no tokens, and does not stop the others from being indexed.
        found = db.execute(
            """
            SELECT position, CAST(body AS BLOB) FROM records
            WHERE position > ? AND kind IN (?, ?) ORDER BY position LIMIT ?
            """,
            (after, *INDEXED_KINDS, _REINDEX_BATCH),
        ).fetchall()
        if not found:
            return
        db.conn.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            [(position, index_text(body)) for position, body in found],
        )
        after = found[-1][0]


def _version_6(db: Database) -> None:
    """Create `meta`, split the scope of idempotent replies, and record migrations in a table.

    Until version 5 the scope of a reply was one text: `-` for create, `ID/spawn`, or a session's
    id; and the row with scope `~` was not a reply but said that the index is stale. `kept` is
    rebuilt by hand: `transform()` of sqlite-utils 4.2 fails on a table WITHOUT ROWID. The table
    `_sqlite_migrations` is created by `migrate`, in the same transaction.
    """
    db.execute(
        """
        CREATE TABLE meta (
            name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute(
        "INSERT OR IGNORE INTO meta SELECT 'stale_index', '1' FROM kept WHERE scope = ?",
        (OLD_STALE_INDEX_SCOPE,),
    )
    db.execute(
        """
        CREATE TABLE kept_new (
            scope TEXT NOT NULL,
            owner TEXT NOT NULL,
            key TEXT NOT NULL,
            session_id TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            answer TEXT NOT NULL,
            PRIMARY KEY (scope, owner, key)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute(
        f"""
        INSERT INTO kept_new (scope, owner, key, session_id, fingerprint, answer)
        SELECT {OLD_SCOPE_SQL}, {OLD_OWNER_SQL}, key, session_id, fingerprint, answer
        FROM kept WHERE scope <> ?
        """,  # noqa: S608 - constants of ours
        (OLD_STALE_INDEX_SCOPE,),
    )
    db.table("kept").drop()
    db.rename_table("kept_new", "kept")
    db.execute("CREATE INDEX kept_by_session ON kept (session_id)")
    db.execute("CREATE INDEX kept_by_owner ON kept (owner) WHERE owner <> ''")


def _version_7(db: Database) -> None:
    """Add the columns `name` and `name_scope`, unique together, and indexes of inputs and turns.

    `name` is `core.names.held_name` of the row, `name_scope` its `name_scope`. Sessions that share
    a name already keep it: in a scope of their own, `=ID`, until their name changes. The index of
    inputs begins with the id, so that it also finds an input whose session is unknown.
    """
    db.execute("ALTER TABLE sessions ADD COLUMN name TEXT")
    db.execute("ALTER TABLE sessions ADD COLUMN name_scope TEXT NOT NULL DEFAULT ''")
    # Not in SQL: SQLite's JSON functions end a text at a NUL.
    db.register_function(_held_name, name="understudy_name", deterministic=True)
    db.execute(
        "UPDATE sessions SET name = understudy_name(row),"
        " name_scope = CASE WHEN parent IS NULL THEN '' ELSE root END"
        " WHERE NOT archived AND json_valid(row)"
    )
    db.execute(
        """
        UPDATE sessions SET name_scope = '=' || id WHERE number IN (
            SELECT number FROM (
                SELECT number, row_number() OVER (PARTITION BY name_scope, name) AS place
                FROM sessions WHERE name IS NOT NULL
            ) WHERE place > 1
        )
        """
    )
    db.execute(
        "CREATE UNIQUE INDEX sessions_by_name ON sessions (name_scope, name) WHERE name IS NOT NULL"
    )
    db.execute("DROP INDEX records_of_inputs")
    db.execute(
        f"""
        CREATE INDEX records_of_inputs ON records ({INPUT_ID_SQL}, session_id)
        WHERE kind = 'input_accepted'
        """
    )
    db.execute(
        "CREATE INDEX records_of_turns ON records (turn_id, session_id) WHERE kind = 'turn_started'"
    )


def _held_name(text: str) -> str | None:
    """Return the name that the session of a row holds, as version 7 defined it."""
    row = json.loads(text)
    name = row.get("name") if isinstance(row, dict) else None
    if not isinstance(name, str):
        return None
    has_failed = row.get("phase") == "stopped" and row.get("stop_reason") == "start_failed"
    return None if has_failed and not row.get("turns") else name


Migration: TypeAlias = Callable[["Database"], None]

MIGRATIONS: Final[tuple[Migration, ...]] = (
    _version_1,
    _version_2,
    _version_3,
    _version_4,
    _version_5,
    _version_6,
    _version_7,
)
