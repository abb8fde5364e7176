"""Changes that another program made to the schema of a store are found; additions are allowed."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from supervisor.store.sqlite.inspection import schema_problems
from supervisor.store.sqlite.store import open_sqlite
from tests.store.fixtures.make import load

CHANGES = {
    "DROP TABLE snapshots": "table snapshots is missing",
    "ALTER TABLE sessions DROP COLUMN tags": "table sessions has other columns",
    "ALTER TABLE records ADD COLUMN mine TEXT": "table records has other columns",
    "DROP INDEX records_by_number": "index records_by_number is missing",
    "CREATE TRIGGER mine AFTER INSERT ON records BEGIN DELETE FROM sessions; END": (
        "trigger mine runs at writes to records"
    ),
    "DELETE FROM _sqlite_migrations WHERE name = 'version_3'": (
        "the recorded migrations do not agree with the version"
    ),
}
ADDITIONS = [
    "CREATE TABLE mine (a)",
    "CREATE VIEW mine AS SELECT * FROM records",
    "CREATE INDEX mine ON records (at)",
]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    file = tmp_path / "state.db"
    async with open_sqlite(file):
        pass
    return file


def change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def test_a_new_store_has_no_problems(path: Path) -> None:
    assert schema_problems(path) == []


@pytest.mark.parametrize("statement", CHANGES)
async def test_a_change_is_found(path: Path, statement: str) -> None:
    if statement.startswith("ALTER TABLE sessions"):
        change(path, "DROP INDEX sessions_by_label")

    change(path, statement)

    assert CHANGES[statement] in schema_problems(path)


async def test_an_index_of_the_same_name_that_covers_something_else_is_found(path: Path) -> None:
    change(path, "DROP INDEX sessions_by_root", "CREATE INDEX sessions_by_root ON sessions (agent)")

    assert schema_problems(path) == ["index sessions_by_root covers something else"]


@pytest.mark.parametrize("statement", ADDITIONS)
async def test_additions_are_not_problems(path: Path, statement: str) -> None:
    change(path, statement)

    assert schema_problems(path) == []


@pytest.mark.parametrize("version", [1, 5])
def test_a_file_of_an_older_version_has_no_problems(tmp_path: Path, version: int) -> None:
    file = tmp_path / "old.db"
    load(version, file)

    assert schema_problems(file) == []


async def test_a_migrated_file_has_no_problems(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    load(1, file)
    async with open_sqlite(file):
        pass

    assert schema_problems(file) == []


def test_a_file_that_is_not_a_database_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "none.db"
    file.write_bytes(b"x" * 4096)

    (problem,) = schema_problems(file)

    assert problem.startswith("the schema cannot be read: ")
