"""Large inserts and deletions are done in chunks, and no reader visible_data part of one."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors import open_actors
from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.store import chunks
from supervisor.store.port import Store, Write
from supervisor.store.sqlite import bulk as sql
from supervisor.store.sqlite.store import SqliteStore, open_sqlite
from supervisor.store.writer import Writer
from supervisor.store.writer_messages import AwaitPurge
from tests.support.chunked_sessions import COUNT, LARGE, large, text, visible_data
from tests.support.store_samples import (
    ONE,
    TWO,
    creation_write,
    next_write,
    numbers_of,
    receipt,
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((chunks, "CHUNK_RECORDS"), (sql, "_CHUNK_RECORDS")):
        monkeypatch.setattr(module, name, LARGE)


async def insert_part(store: Store, write: Write, first: int = 0, last: int | None = None) -> None:
    await store.insert_chunk(write.session_id, write.records[first:last])


def rest_of(write: Write, first: int) -> Write:
    return write.changed(records=write.records[first:])


def tables_with(path: Path, session_id: SessionId = ONE) -> list[str]:
    """Return the tables that contain the session."""
    with closing(sqlite3.connect(path)) as connection:
        tables = ("sessions", "records", "kept", "snapshots", "unfinished")
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608
    return [name for name, found in rows.items() if session_id in repr(found)]


# Inserting ------------------------------------------------------------------------------


async def test_an_incomplete_session_is_invisible(store: Store) -> None:
    write = large()
    await insert_part(store, write, 0, 10)
    await insert_part(store, write, 10, 20)
    assert await visible_data(store) == []

    assert await store.commit([rest_of(write, 20)]) == [None]

    assert await store.records(ONE) == list(write.records)
    stored = await store.read(ONE)
    assert stored is not None
    assert (stored.row, stored.last_seq) == (write.row, COUNT)
    assert len(await store.search("common", limit=100)) == COUNT - 2
    assert await store.stored_reply(ONE, "key") == write.stored_reply


async def test_a_reader_of_all_records_never_passes_an_incomplete_session(store: Store) -> None:
    write = large()
    await store.commit([creation_write(TWO)])
    await insert_part(store, write, 0, 20)
    await store.commit([next_write(TWO, 2)])
    before = await store.all_records()
    assert [one.session_id for _, one in before] == [TWO]

    await store.commit([rest_of(write, 20)])

    after = await store.all_records(after=before[-1][0])
    assert [(one.session_id, one.seq) for _, one in after] == [
        *((ONE, seq) for seq in range(1, 21)),
        (TWO, 2),
        *((ONE, seq) for seq in range(21, COUNT + 1)),
    ]
    assert [place for place, _ in after] == sorted({place for place, _ in after})


async def test_an_existing_session_or_a_gap_cannot_be_inserted(store: Store) -> None:
    await store.commit([creation_write(TWO)])
    write = large()

    with pytest.raises(NotStorable):
        await store.insert_chunk(TWO, [text(TWO, 2)])
    with pytest.raises(NotStorable):
        await insert_part(store, write, 1, 5)
    await insert_part(store, write, 0, 5)
    with pytest.raises(NotStorable):
        await insert_part(store, write, 6, 8)
    [refusal] = await store.commit([rest_of(write, 6)])

    assert isinstance(refusal, NotStorable)
    assert await visible_data(store) == []
    assert await store.commit([rest_of(write, 5)]) == [None]


async def test_an_incomplete_session_can_be_deleted(store: Store) -> None:
    await insert_part(store, large(), 0, 20)

    await store.delete(ONE)
    while await store.purge_deleted():
        pass

    assert await visible_data(store) == []
    assert await store.commit([large()]) == [None]
    assert await numbers_of(store) == list(range(1, COUNT + 1))


async def test_an_incomplete_session_of_an_earlier_writer_is_removed(store: Store) -> None:
    await insert_part(store, large(), 0, 20)

    await store.find_unfinished()
    while await store.purge_deleted():
        pass

    assert await store.commit([large()]) == [None]
    assert await numbers_of(store) == list(range(1, COUNT + 1))


async def test_replies_under_the_id_of_an_incomplete_session_are_removed(store: Store) -> None:
    write = large()
    await insert_part(store, write, last=5)
    await store.commit([creation_write(TWO).changed(stored_reply=receipt(ONE))])

    await store.find_unfinished()
    while await store.purge_deleted():
        pass

    assert await store.stored_reply(ONE, "key") is None


# Deleting -------------------------------------------------------------------------------


async def test_a_partly_purged_session_is_invisible(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(), creation_write(TWO)])
        await store.delete(ONE)

        pauses = 0
        assert tables_with(store.path) == ["records", "unfinished"]
        while await store.purge_deleted():
            pauses += 1
            assert await visible_data(store) == []
        assert tables_with(store.path) == []
        assert pauses == 2
        assert await numbers_of(store, TWO) == [1]


async def test_a_session_recreated_during_the_purge_is_new(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large()])
        await store.delete(ONE)

        assert await store.commit([creation_write(ONE)]) == [None]

        assert await numbers_of(store) == [1]
        assert await store.search("common") == []
        assert not await store.purge_deleted()


async def test_a_small_session_is_purged_at_once(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(count=LARGE)])
        await store.delete(ONE)

        assert tables_with(store.path) == []


async def test_a_deletion_in_a_write_is_visible_with_it(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(), creation_write(TWO)])
        write = next_write(TWO, 2).changed(deletes=ONE)

        assert await store.commit([write]) == [None]

        assert await visible_data(store) == []
        assert tables_with(store.path) == ["records", "unfinished"]


async def test_the_index_is_optimized_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_CHUNK_PAGES", 1)
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(TWO)])
        for number in range(20):
            one = SessionId(f"s_{number}")
            animal = "zebra" if number < 10 else "okapi"
            words = " ".join(f"{animal}{number}x{each}" for each in range(500))
            record = Record(one, 2, 2.0, None, "user_text", {"text": words})
            await store.commit([creation_write(one), Write(one, 0, (record,))])
        for number in range(10):
            await store.delete(SessionId(f"s_{number}"))
        assert b"zebra" in index_of(store.path)

        tidied = 0
        while await store.optimize_index():
            tidied += 1

        assert tidied > 1
        assert b"zebra" not in index_of(store.path)
        assert len(await store.search("common", limit=100)) == COUNT - 2


def index_of(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        return b"".join(block for (block,) in connection.execute("SELECT block FROM words_data"))


# Kills between chunks -------------------------------------------------------------------


def copy_after_kill(store: SqliteStore, folder: Path) -> Path:
    """Return a copy of the files, as a kill leaves them."""
    folder.mkdir()
    for one in store.path.parent.glob("state.db*"):
        shutil.copy(one, folder)
    return folder / store.path.name


async def reopened(path: Path) -> tuple[list[Any], list[str]]:
    """Return the content of the store after the next supervisor's writer has run."""
    async with open_sqlite(path) as store, open_actors() as system:
        writer = await system.start(lambda: Writer(store), name="writer")
        seen = await visible_data(store)
        await writer.ask(AwaitPurge())
        assert await visible_data(store) == seen
        assert seen == [] or await numbers_of(store) == list(range(1, COUNT + 1))
        left = tables_with(path)
        await writer.stop()
        return seen, left


async def test_a_crash_between_chunks_leaves_all_or_nothing(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        found: list[tuple[list[Any], list[str]]] = []

        async def die() -> None:
            found.append(await reopened(copy_after_kill(store, tmp_path / str(len(found)))))

        write = large()
        for first in range(0, 20, 5):
            await insert_part(store, write, first, first + 5)
            await die()
        await store.commit([rest_of(write, 20)])
        await die()
        await store.delete(ONE)
        await die()
        while await store.purge_deleted():
            await die()

    assert [bool(seen) for seen, _ in found] == [False] * 4 + [True] + [False] * 3
    assert [left for seen, left in found if not seen] == [[]] * 7
