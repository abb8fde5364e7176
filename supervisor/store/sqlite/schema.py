"""Version of the schema: check that a file is a store of ours, and apply the migrations it lacks.

Rule 1: `PRAGMA user_version` is the number of migrations applied. It is set in the transaction of
        the migration, together with the row in `_sqlite_migrations`, so both always agree.
Rule 2: an existing file is copied before its first migration (`backup.copy_before_migration`).
Rule 3: sqlite-utils is imported only when a migration is due: the import takes about 150 ms.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Final

from supervisor.core.errors import ConfigError, StoreTooNew

from .file_check import refuse_if_lost
from .files import transaction
from .migrations import APPLICATION_ID, MIGRATIONS, Migration

if TYPE_CHECKING:  # about 150 ms, see rule 3
    from sqlite_utils import Database, Migrations

_HEADER_BYTES: Final = 100
# The name of our migrations in the table `_sqlite_migrations`.
_MIGRATION_SET: Final = "understudy"


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
    from sqlite_utils import Database  # noqa: PLC0415 - about 150 ms, see rule 3

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
    from sqlite_utils import Migrations  # noqa: PLC0415 - about 150 ms, see rule 3

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
