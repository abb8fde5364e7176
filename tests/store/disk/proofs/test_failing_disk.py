"""Tests of the failing disk: SQLite reports the right error and recovers with the disk."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.disk import calls
from tests.support.disk.calls import FileKind
from tests.support.disk.faults import DiskCall, FailingDisk, Failure, failing_disk
from tests.support.disk.full_disk import fill_disk, free_disk


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    with failing_disk() as failing:
        yield failing


@pytest.fixture
def path(tmp_path: Path, disk: FailingDisk) -> Path:
    """Create a database with one number in it."""
    with closing(connected(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE numbers (n, text)")
        insert(connection, 0)
    return tmp_path / "a.db"


def connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def insert(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("INSERT INTO numbers VALUES (?, ?)", (number, "x" * 3000))


def insert_all(connection: sqlite3.Connection, numbers: range) -> None:
    for number in numbers:
        insert(connection, number)


def numbers_in(connection: sqlite3.Connection) -> list[int]:
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def copied(path: Path) -> Path:
    """Copy the files as they are now, which is what a killed process leaves."""
    copy = path.with_name("copy.db")
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    return copy


FAULTS: list[tuple[DiskCall, Failure, str]] = [
    ("write", "full", "SQLITE_FULL"),
    ("write", "write_error", "SQLITE_IOERR_WRITE"),
    ("write", "read_only", "SQLITE_READONLY"),
    ("sync", "sync_error", "SQLITE_IOERR_FSYNC"),
]


@pytest.mark.parametrize(("call", "failure", "name"), FAULTS)
def test_a_commit_reports_the_fault_and_the_connection_recovers(
    path: Path, disk: FailingDisk, call: DiskCall, failure: Failure, name: str
) -> None:
    with closing(connected(path)) as connection:
        insert(connection, 1)
        disk.fail(call, with_=failure, on="wal")

        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError) as caught:
                insert(connection, 2)
            assert caught.value.sqlite_errorname == name
        assert numbers_in(connection) == [0, 1]

        disk.heal()
        insert(connection, 3)
        assert numbers_in(connection) == [0, 1, 3]


@pytest.mark.parametrize("after", range(7))
@pytest.mark.parametrize("kind", ["db", "wal"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[1])
def test_a_reopened_database_has_every_commit_whichever_call_failed(
    path: Path, disk: FailingDisk, fault: tuple[DiskCall, Failure, str], kind: FileKind, after: int
) -> None:
    call, failure, _ = fault
    committed = [0]
    with closing(connected(path)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 3")
        disk.fail(call, with_=failure, on=kind, after=after, how_long="once")
        for number in range(1, 8):
            try:
                insert(connection, number)
            except sqlite3.OperationalError:
                continue
            committed.append(number)

    assert disk.failed
    with closing(connected(path)) as again:
        assert numbers_in(again) == committed


def test_a_log_that_cannot_be_opened_is_reported(path: Path, disk: FailingDisk) -> None:
    disk.fail("open", with_="open_error", on="wal", how_long="once")

    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(sqlite3.OperationalError) as caught:
            numbers_in(connection)
        assert caught.value.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN
        assert numbers_in(connection) == [0]


def test_a_database_that_cannot_be_opened_is_reported(path: Path, disk: FailingDisk) -> None:
    disk.fail("open", with_="open_error", on="db", how_long="once")

    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        sqlite3.connect(path)

    with closing(sqlite3.connect(path)) as connection:
        assert numbers_in(connection) == [0]


def test_a_failed_truncation_loses_nothing(path: Path, disk: FailingDisk) -> None:
    with closing(connected(path)) as connection:
        insert(connection, 1)
        disk.fail("truncate", with_="truncate_error", on="wal", how_long="once")

        with pytest.raises(sqlite3.OperationalError) as caught:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert caught.value.sqlite_errorname == "SQLITE_IOERR_TRUNCATE"

        assert numbers_in(connection) == [0, 1]
        insert(connection, 2)
        assert numbers_in(connection) == [0, 1, 2]


@pytest.mark.parametrize("arriving_bytes", [1, 23, 24, 25, 500, 4095])
def test_a_short_write_leaves_nothing_of_its_transaction(
    path: Path, disk: FailingDisk, arriving_bytes: int
) -> None:
    with closing(connected(path)) as connection:
        insert(connection, 1)
        disk.fail("write", with_="full", on="wal", after=1, arriving_bytes=arriving_bytes)
        with pytest.raises(sqlite3.OperationalError, match="full"):
            insert(connection, 2)
        disk.heal()

    with closing(connected(path)) as again:
        assert numbers_in(again) == [0, 1]


def test_a_commit_with_a_failed_sync_is_invisible_until_a_crash(
    path: Path, disk: FailingDisk
) -> None:
    # A property of SQLite: the frames are in the log, with the commit mark.
    with closing(connected(path)) as connection:
        insert(connection, 1)
        disk.fail("sync", with_="sync_error", on="wal", how_long="once")
        with pytest.raises(sqlite3.OperationalError):
            insert(connection, 2)
        assert numbers_in(connection) == [0, 1]

        with closing(connected(copied(path))) as after_a_crash:
            assert numbers_in(after_a_crash) == [0, 1, 2]
        # The next commit overwrites it.
        insert(connection, 3)
        with closing(connected(copied(path))) as after_a_crash:
            assert numbers_in(after_a_crash) == [0, 1, 3]


def test_a_fault_counts_only_the_calls_of_its_kind(path: Path, disk: FailingDisk) -> None:
    with closing(connected(path)) as connection:
        disk.fail("sync", with_="sync_error", on="wal", after=3, how_long="once")
        # The first commit writes the log's header, which has its own sync.
        insert(connection, 1)
        insert(connection, 2)
        with pytest.raises(sqlite3.OperationalError):
            insert(connection, 3)
        insert(connection, 4)

        assert disk.failed == [calls.Sync(f"{path}-wal", "wal")]
        assert numbers_in(connection) == [0, 1, 2, 4]


def test_a_full_disk_accepts_writes_that_do_not_grow_a_file(path: Path, disk: FailingDisk) -> None:
    with closing(connected(path)) as connection:
        insert_all(connection, range(1, 5))
        # The log restarts at its beginning, in the space that it has.
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        disk.fill()

        insert(connection, 5)
        with pytest.raises(sqlite3.OperationalError, match="full"):
            insert_all(connection, range(6, 20))
        disk.heal()

        insert(connection, 30)
        assert numbers_in(connection)[-1] == 30


def test_a_disk_is_full_when_its_space_is_used_up(path: Path, disk: FailingDisk) -> None:
    with closing(connected(path)) as connection:
        disk.fill(room_bytes=20_000)
        with pytest.raises(sqlite3.OperationalError, match="full"):
            insert_all(connection, range(1, 20))

        assert Path(f"{path}-wal").stat().st_size == 20_000
        disk.heal()
        assert numbers_in(connection)[0] == 0


# A really full disk ----------------------------------------------------------------------

# Inserts one row for each input line and prints the result.
PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
for line in sys.stdin:
    try:
        connection.execute("INSERT INTO numbers VALUES (?, ?)", (int(line), "x" * 3000))
        print("done", flush=True)
    except sqlite3.OperationalError as error:
        print(error.sqlite_errorname, flush=True)
"""


def test_a_process_on_a_full_disk_gets_an_error_and_recovers(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask_for(number: int) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{number}\n")
            return process.stdout.readline().strip()

        assert ask_for(1) == "done"
        fill_disk(process.pid, max_file_bytes=10_000)
        assert ask_for(2) == "SQLITE_IOERR_WRITE"
        free_disk(process.pid)
        assert ask_for(3) == "done"
        process.stdin.close()

    with closing(connected(path)) as connection:
        assert numbers_in(connection) == [0, 1, 3]
