"""Free pages of the file are returned to the disk after deletions, in bounded steps."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from supervisor.store.port import Write
from supervisor.store.sqlite import space
from supervisor.store.sqlite.store import SqliteStore, open_sqlite, restore_store
from tests.support.store_samples import (
    ONE,
    TWO,
    creation_write,
    next_write,
    numbers_of,
    text_record,
)

# About 5 pages each.
TEXT = "word " * 4_000
RECORDS = 150


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def pragma(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def size_of(path: Path) -> int:
    return path.stat().st_size


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


async def fill(store: SqliteStore) -> None:
    """Store a small session and one of some MB."""
    await store.commit([creation_write(TWO), next_write(TWO, 2), creation_write(ONE)])
    for seq in range(2, RECORDS + 2):
        await store.commit([Write(ONE, 0, (text_record(seq, TEXT),))])


async def delete_large(store: SqliteStore) -> None:
    await store.delete(ONE)
    while await store.purge_deleted():
        pass


def forbid_shrinking(path: Path) -> None:
    """Give the file the format of an early version, with all pages that it has."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")


async def test_a_file_shrinks_after_deletions_in_steps(path: Path) -> None:
    async with open_sqlite(path) as store:
        await fill(store)
        await delete_large(store)
        before = pragma(path, "page_count")
        counts = [before]
        while await store.optimize_index():
            counts.append(pragma(path, "page_count"))

        assert size_of(path) < before * pragma(path, "page_size") / 2
        assert await numbers_of(store, TWO) == [1, 2]

    steps = [one - other for one, other in pairwise(counts)]
    # Pages of the map, which are returned too, count in addition.
    assert max(steps) <= space.STEP_PAGES + 2
    assert 1 < sum(step > 0 for step in steps) <= before // space.STEP_PAGES + 1
    assert pragma(path, "freelist_count") < space.STEP_PAGES
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


async def test_a_file_without_deletions_is_left_alone(path: Path) -> None:
    async with open_sqlite(path) as store:
        await fill(store)
        before = pragma(path, "page_count")

        assert not await store.optimize_index()

        assert pragma(path, "page_count") == before


async def test_a_file_shrinks_when_it_is_closed_soon_after_a_deletion(path: Path) -> None:
    async with open_sqlite(path) as store:
        await fill(store)
        await delete_large(store)
        before = pragma(path, "page_count")

    assert pragma(path, "page_count") < before / 2


async def test_a_file_of_an_early_version_is_not_rewritten(path: Path) -> None:
    async with open_sqlite(path) as store:
        await fill(store)
    forbid_shrinking(path)
    before = pragma(path, "page_count")
    async with open_sqlite(path) as store:
        await delete_large(store)
        while await store.optimize_index():
            pass

    assert pragma(path, "page_count") >= before
    assert space.stuck_bytes(path) > before * pragma(path, "page_size") / 2


async def test_a_restored_backup_can_shrink(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    async with open_sqlite(path) as store:
        await fill(store)
    forbid_shrinking(path)
    records = query(path, "SELECT * FROM records ORDER BY position")
    words = "SELECT rowid FROM words WHERE words MATCH 'word'"
    async with open_sqlite(path) as store:
        await store.backup(copy)

    await restore_store(copy, path)

    assert space.stuck_bytes(path) == 0
    assert pragma(path, "auto_vacuum") == 2
    assert query(path, "SELECT * FROM records ORDER BY position") == records
    assert len(query(path, words)) == RECORDS
    async with open_sqlite(path) as store:
        await delete_large(store)
        while await store.optimize_index():
            pass
    assert pragma(path, "page_count") < len(records) * 2
