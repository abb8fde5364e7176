"""Schema of the store, and the migrations from each version to the next.

Rule 1: forward only. A released migration never changes; a change is another migration.
Rule 2: `PRAGMA user_version` is the number of migrations applied. It is set in the transaction of
        the migration, together with the row in `_sqlite_migrations`, so both always agree.
Rule 3: an existing file is copied before its first migration (`backup.copy_before_migration`).
Rule 4: sqlite-utils is imported only when a migration is due: the import takes about 150 ms.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from supervisor.core.errors import ConfigError, StoreTooNew
from supervisor.store.tokenizer import INDEXED_KINDS, index_text

from .file_check import refuse_if_lost
from .files import transaction
from .reply_scope import OLD_OWNER_SQL, OLD_SCOPE_SQL, OLD_STALE_INDEX_SCOPE

if TYPE_CHECKING:  # about 150 ms, see rule 4
    from sqlite_utils import Database, Migrations

# "undr": marks a file as a store of ours.
APPLICATION_ID: Final = 0x756E6472
_HEADER_BYTES: Final = 100
# Records read at once by a migration that has to read all of them.
_REINDEX_BATCH: Final = 1_000
# The name of our migrations in the table `_sqlite_migrations`.
_MIGRATION_SET: Final = "understudy"


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
VERSION: Final = len(MIGRATIONS)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema version of the file; 0 for an empty file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def refuse_unless_ours(path: Path, *, may_be_new: bool) -> None:
    """Raise ConfigError if the file is not a store, StoreTooNew if its version is newer.

    Raise StoreDegraded if the store that was there is lost. Only the header is read, because even a
    read-only SQLite connection changes files beside a foreign file.
    """
    if may_be_new:
        refuse_if_lost(path)
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    wal = path.with_name(f"{path.name}-wal")
    # With a WAL the header may be out of date; `refuse_foreign` checks again after opening.
    is_unfinished = wal.exists() and wal.stat().st_size > 0
    if may_be_new and (is_unfinished or not header):
        return
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
        raise _not_ours(path, may_be_new=may_be_new)
    changes, version, application = (
        int.from_bytes(header[offset : offset + 4], "big") for offset in (40, 60, 68)
    )
    if application == APPLICATION_ID:
        _refuse_if_newer(version, path)
        return
    is_new = application == version == changes == 0
    if not may_be_new or not is_new:
        raise _not_ours(path, may_be_new=may_be_new)


def refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Repeat the check of `refuse_unless_ours` on the open file, with its WAL applied."""
    version = version_of(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (tables or version):
        raise _not_ours(path, may_be_new=True)
    _refuse_if_newer(version, path)


def _not_ours(path: Path, *, may_be_new: bool) -> ConfigError:
    hint = "name another file, or one that does not exist yet"
    return ConfigError(
        f"{path.name} is not an understudy store",
        hint=hint if may_be_new else "name an understudy store",
    )


def _refuse_if_newer(version: int, path: Path) -> None:
    if version > VERSION:
        raise StoreTooNew(
            f"{path.name} has version {version}, this program knows {VERSION}",
            hint="open it with the version of understudy that wrote it, or a later one",
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Apply all migrations that the file lacks, each in its own transaction.

    A migration that raises leaves the file at the version before it.
    """
    before = version_of(connection)
    if before == VERSION:
        return
    from sqlite_utils import Database  # noqa: PLC0415 - about 150 ms, see rule 4

    db = Database(connection, recursive_triggers=False, execute_plugins=False)
    migrations = _migration_set()
    for number in range(before + 1, VERSION + 1):
        # One BEGIN IMMEDIATE around it: `Migrations.apply` creates its table outside the
        # transaction of the migration, and a crash in between would leave a file that has a table
        # and no application id, which is refused as foreign.
        with transaction(connection):
            _record_earlier_versions(migrations, db, number - 1)
            migrations.apply(db, stop_before=_migration_names(after=number))


def _migration_names(*, after: int = 0) -> list[str]:
    return [f"version_{number}" for number in range(after + 1, VERSION + 1)]


def _migration_set() -> Migrations:
    from sqlite_utils import Migrations  # noqa: PLC0415 - about 150 ms, see rule 4

    migrations = Migrations(_MIGRATION_SET)
    for number, (name, migration) in enumerate(
        zip(_migration_names(), MIGRATIONS, strict=True), start=1
    ):
        migrations(name=name)(_with_version(migration, number))
    return migrations


def _with_version(migration: Migration, number: int) -> Migration:
    def apply(db: Database) -> None:
        migration(db)
        db.execute(f"PRAGMA user_version = {number}")

    return apply


def _record_earlier_versions(migrations: Migrations, db: Database, version: int) -> None:
    """Make `_sqlite_migrations` agree with `user_version`, which is authoritative.

    A file written before version 6 has no such table: its migrations are recorded as applied.
    """
    migrations.ensure_migrations_table(db)
    recorded = [one.name for one in migrations.applied(db)]
    expected = _migration_names()[:version]
    if recorded == expected:
        return
    table = db.table(migrations.migrations_table)
    table.delete_where("migration_set = ?", [_MIGRATION_SET])
    now = str(dt.datetime.now(dt.UTC))
    table.insert_all(
        {"migration_set": _MIGRATION_SET, "name": name, "applied_at": now} for name in expected
    )
