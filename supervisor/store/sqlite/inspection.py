"""Inspection of a file: whether it is a store, and changes of its schema by another program.

sqlite-utils is imported by this module, for a command that may take its 150 to 340 ms.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from .files import open_reader
from .migrations import APPLICATION_ID
from .schema import VERSION, migrate, version_of

if TYPE_CHECKING:  # slow to import
    from sqlite_utils import Database

# By name: the columns of tables, and what an index covers.
_Columns: TypeAlias = dict[str, tuple[tuple[str, str, int, int], ...]]
_Indexes: TypeAlias = dict[str, tuple[str, int, int, tuple[str | None, ...]]]

# Names of the lock, the log and the index of the log, which lie beside a store.
_COMPANION_ENDINGS: Final = (".lock", "-wal", "-shm")
_APPLICATION_ID_BYTES: Final = slice(68, 72)


def looks_like_store(path: Path) -> bool:
    """Return True if the file is a store, or has files beside it that only a store has."""
    if any(path.with_name(path.name + ending).exists() for ending in _COMPANION_ENDINGS):
        return True
    with path.open("rb") as file:
        header = file.read(_APPLICATION_ID_BYTES.stop)
    application = int.from_bytes(header[_APPLICATION_ID_BYTES], "big")
    return header.startswith(b"SQLite format 3\0") and application == APPLICATION_ID


def schema_problems(path: Path) -> list[str]:
    """Return the differences between the schema of a store and the one that the migrations create.

    Additions are not reported, except triggers, which run at each write. A file of another version
    is not compared: it is migrated, or refused, when it is opened.
    """
    try:
        with closing(open_reader(path)) as connection:
            if version_of(connection) != VERSION:
                return []
            return list(_differences(_inspect(connection)))
    except sqlite3.Error as error:
        return [f"the schema cannot be read: {error}"]


def _inspect(connection: sqlite3.Connection) -> Database:
    from sqlite_utils import Database  # noqa: PLC0415 - about 150 ms, see above

    return Database(connection, recursive_triggers=False, execute_plugins=False)


def _differences(db: Database) -> Iterator[str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        expected = _inspect(connection)
        columns, indexes = _columns(expected), _indexes(expected)
        recorded = _recorded_migrations(expected)
    found_columns, found_indexes = _columns(db), _indexes(db)
    for name, wanted in columns.items():
        if name not in found_columns:
            yield f"table {name} is missing"
        elif found_columns[name] != wanted:
            yield f"table {name} has other columns"
    for index, covered in indexes.items():
        if index not in found_indexes:
            yield f"index {index} is missing"
        elif found_indexes[index] != covered:
            yield f"index {index} covers something else"
    yield from (f"trigger {one.name} runs at writes to {one.table}" for one in db.triggers)
    if "_sqlite_migrations" in found_columns and _recorded_migrations(db) != recorded:
        yield "the recorded migrations do not agree with the version"


def _columns(db: Database) -> _Columns:
    return {
        name: tuple((one.name, one.type, one.notnull, one.is_pk) for one in db.table(name).columns)
        for name in db.table_names()
    }


def _indexes(db: Database) -> _Indexes:
    return {
        one.name: (name, one.unique, one.partial, tuple(one.columns))
        for name in db.table_names()
        for one in db.table(name).indexes
    }


def _recorded_migrations(db: Database) -> list[tuple[str, str]]:
    rows = db.table("_sqlite_migrations").rows_where(select="migration_set, name", order_by="id")
    return [(row["migration_set"], row["name"]) for row in rows]
