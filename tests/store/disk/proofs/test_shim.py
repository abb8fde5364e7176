"""Tests of the SQLite shim: it leaves no trace, and reports every call."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.disk import calls, sqlite_library
from tests.support.disk.calls import CarryOut
from tests.support.disk.disk_events import Created, Deleted, Found, Noted, Operation, Synced, Wrote
from tests.support.disk.recording import RecordedDisk, recorded_disk
from tests.support.disk.shim import FilesLeftOpen, Shim, swift_disk


def opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def keep_numbers(path: Path, *numbers: int) -> None:
    with closing(opened(path)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS numbers (n)")
        for number in numbers:
            connection.execute("INSERT INTO numbers VALUES (?)", (number,))


def numbers_in(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [number for (number,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def of(path: Path, disk: RecordedDisk) -> list[Operation]:
    return [it for it in disk.operations if not isinstance(it, Noted) and it.path == str(path)]


# Installing and removing -----------------------------------------------------------------


def test_data_written_through_the_shim_is_readable_without_it(tmp_path: Path) -> None:
    with swift_disk():
        keep_numbers(tmp_path / "a.db", 1, 2, 3)

    assert numbers_in(tmp_path / "a.db") == [1, 2, 3]


def test_the_default_disk_is_restored_afterwards(tmp_path: Path) -> None:
    sqlite = sqlite_library.sqlite_library()
    before = sqlite.sqlite3_vfs_find(None)

    with recorded_disk() as disk:
        assert sqlite.sqlite3_vfs_find(None) != before
        keep_numbers(tmp_path / "a.db", 1)
    seen = len(disk.operations)
    keep_numbers(tmp_path / "a.db", 2)

    assert sqlite.sqlite3_vfs_find(None) == before
    assert len(disk.operations) == seen


def test_a_connection_left_open_is_reported_and_still_works(tmp_path: Path) -> None:
    with pytest.raises(FilesLeftOpen, match=r"a\.db.*close every connection"), swift_disk():
        connection = opened(tmp_path / "a.db")

    connection.execute("CREATE TABLE numbers (n)")
    connection.close()
    assert numbers_in(tmp_path / "a.db") == []


def test_an_error_at_exit_is_not_hidden_by_an_open_connection(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"), swift_disk():
        (connection := opened(tmp_path / "a.db")).execute("SELECT n FROM numbers")

    connection.close()


def test_an_exception_of_a_handler_is_raised(tmp_path: Path) -> None:
    def break_down(call: calls.Call, carry_out: CarryOut) -> int:
        if isinstance(call, calls.Write):
            raise ZeroDivisionError
        return carry_out(call)

    with pytest.raises(ZeroDivisionError), Shim(break_down):
        keep_numbers(tmp_path / "a.db", 1)


def test_nested_shims_both_see_every_call(tmp_path: Path) -> None:
    with recorded_disk() as inner, recorded_disk() as outer:
        keep_numbers(tmp_path / "a.db", 1)

    assert inner.operations == outer.operations != ()


def test_several_threads_with_a_connection_each_are_recorded(tmp_path: Path) -> None:
    def work(name: str) -> None:
        keep_numbers(tmp_path / name, *range(50))

    with recorded_disk() as disk:
        threads = [threading.Thread(target=work, args=(f"{n}.db",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    made = {Path(it.path).name for it in disk.operations if isinstance(it, Created)}
    assert made >= {f"{n}.db" for n in range(4)}
    assert [numbers_in(tmp_path / f"{n}.db") for n in range(4)] == [list(range(50))] * 4


def test_readers_and_a_writer_of_one_file_see_each_other(tmp_path: Path) -> None:
    with swift_disk():
        writer, reader = opened(tmp_path / "a.db"), opened(tmp_path / "a.db")
        writer.execute("CREATE TABLE numbers (n)")
        writer.execute("INSERT INTO numbers VALUES (1)")

        assert reader.execute("SELECT n FROM numbers").fetchall() == [(1,)]
        writer.close()
        reader.close()


# Recording ------------------------------------------------------------------------------


def test_a_commit_ends_with_a_sync_of_the_log(tmp_path: Path) -> None:
    with recorded_disk() as disk:
        connection = opened(tmp_path / "a.db")
        connection.execute("CREATE TABLE numbers (n)")
        before = len(disk.operations)
        connection.execute("INSERT INTO numbers VALUES (1)")
        *written, last = disk.operations[before:]
        connection.close()

    log = str(tmp_path / "a.db-wal")
    assert last == Synced(log, and_folder=False)
    assert written
    assert all(isinstance(it, Wrote) and it.path == log for it in written)


def test_the_first_sync_of_a_new_log_is_one_of_its_folder(tmp_path: Path) -> None:
    with recorded_disk() as disk:
        keep_numbers(tmp_path / "a.db", 1)

    log = of(tmp_path / "a.db-wal", disk)
    syncs = [it for it in log if isinstance(it, Synced)]
    assert isinstance(log[0], Created)
    assert [sync.and_folder for sync in syncs] == [True] + [False] * (len(syncs) - 1)
    assert log[-1] == Deleted(str(tmp_path / "a.db-wal"), and_folder=False)


def test_an_existing_file_is_recorded_with_its_content(tmp_path: Path) -> None:
    keep_numbers(tmp_path / "a.db", 1)
    contents = (tmp_path / "a.db").read_bytes()

    with recorded_disk() as disk:
        keep_numbers(tmp_path / "a.db", 2)

    assert disk.operations[0] == Found(str(tmp_path / "a.db"), contents)


def test_databases_in_memory_and_temporary_tables_are_not_recorded() -> None:
    with recorded_disk() as disk:
        connection = sqlite3.connect(":memory:")
        connection.execute("PRAGMA temp_store = FILE")
        connection.execute("CREATE TEMP TABLE numbers (n)")
        connection.close()

    assert disk.operations == ()


def test_the_same_work_with_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    def work(seed: int) -> tuple[Operation, ...]:
        (tmp_path / "a.db").unlink(missing_ok=True)
        with recorded_disk(seed=seed) as disk:
            keep_numbers(tmp_path / "a.db", 1, 2)
        return disk.operations

    assert work(1) == work(1)
    assert work(1) != work(2)
