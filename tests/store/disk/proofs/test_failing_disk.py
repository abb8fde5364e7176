"""A failing disk: the right error surfaces, and when it is well again so is the database."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.disk import calls
from tests.store.disk.calls import FileKind
from tests.store.disk.faults import Deed, FailingDisk, Failure, failing_disk
from tests.store.disk.full_disk import fill_disk, free_disk


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    with failing_disk() as failing:
        yield failing


@pytest.fixture
def path(tmp_path: Path, disk: FailingDisk) -> Path:
    """A database with one number in it."""
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
    """The files as they are at this moment, which is what a killed process leaves behind."""
    copy = path.with_name("copy.db")
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    return copy


FAULTS: list[tuple[Deed, Failure, str]] = [
    ("write", "full", "SQLITE_FULL"),
    ("write", "write_error", "SQLITE_IOERR_WRITE"),
    ("write", "read_only", "SQLITE_READONLY"),
    ("sync", "sync_error", "SQLITE_IOERR_FSYNC"),
]


@pytest.mark.parametrize(("deed", "failure", "name"), FAULTS)
def test_a_commit_fails_with_the_name_of_the_fault_and_the_connection_heals(
    path: Path, disk: FailingDisk, deed: Deed, failure: Failure, name: str
) -> None:
    with closing(connected(path)) as connection:
        insert(connection, 1)
        disk.fail(deed, with_=failure, on="wal")

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
def test_whichever_call_fails_a_reopened_database_has_what_was_committed(
    path: Path, disk: FailingDisk, fault: tuple[Deed, Failure, str], kind: FileKind, after: int
) -> None:
    deed, failure, _ = fault
    committed = [0]
    with closing(connected(path)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 3")
        disk.fail(deed, with_=failure, on=kind, after=after, how_long="once")
        for number in range(1, 8):
            try:
                insert(connection, number)
            except sqlite3.OperationalError:
                continue
            committed.append(number)

    assert disk.failed
    with closing(connected(path)) as again:
        assert numbers_in(again) == committed


def test_a_log_that_cannot_be_opened_is_said_so(path: Path, disk: FailingDisk) -> None:
    disk.fail("open", with_="open_error", on="wal", how_long="once")

    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(sqlite3.OperationalError) as caught:
            numbers_in(connection)
        assert caught.value.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN
        assert numbers_in(connection) == [0]


def test_a_database_that_cannot_be_opened_is_said_so(path: Path, disk: FailingDisk) -> None:
    disk.fail("open", with_="open_error", on="db", how_long="once")

    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        sqlite3.connect(path)

    with closing(sqlite3.connect(path)) as connection:
        assert numbers_in(connection) == [0]


def test_a_truncation_that_fails_loses_nothing(path: Path, disk: FailingDisk) -> None:
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


def test_a_commit_whose_sync_failed_is_gone_for_the_living_and_back_after_a_crash(
    path: Path, disk: FailingDisk
) -> None:
    # Not ours to change, and good to know: its frames are in the log, with the mark of a commit.
    with closing(connected(path)) as connection:
        insert(connection, 1)
        disk.fail("sync", with_="sync_error", on="wal", how_long="once")
        with pytest.raises(sqlite3.OperationalError):
            insert(connection, 2)
        assert numbers_in(connection) == [0, 1]

        with closing(connected(copied(path))) as after_a_crash:
            assert numbers_in(after_a_crash) == [0, 1, 2]
        # The next commit is written over it.
        insert(connection, 3)
        with closing(connected(copied(path))) as after_a_crash:
            assert numbers_in(after_a_crash) == [0, 1, 3]


def test_a_fault_counts_only_the_calls_it_is_meant_for(path: Path, disk: FailingDisk) -> None:
    with closing(connected(path)) as connection:
        disk.fail("sync", with_="sync_error", on="wal", after=3, how_long="once")
        # The first brings the log's header, which has a sync of its own.
        insert(connection, 1)
        insert(connection, 2)
        with pytest.raises(sqlite3.OperationalError):
            insert(connection, 3)
        insert(connection, 4)

        assert disk.failed == [calls.Sync(f"{path}-wal", "wal")]
        assert numbers_in(connection) == [0, 1, 2, 4]


def test_a_full_disk_takes_what_does_not_grow(path: Path, disk: FailingDisk) -> None:
    with closing(connected(path)) as connection:
        insert_all(connection, range(1, 5))
        # The log begins again from its start, in the room that it has.
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        disk.fill()

        insert(connection, 5)
        with pytest.raises(sqlite3.OperationalError, match="full"):
            insert_all(connection, range(6, 20))
        disk.heal()

        insert(connection, 30)
        assert numbers_in(connection)[-1] == 30


def test_a_disk_is_full_when_its_room_is_used_up(path: Path, disk: FailingDisk) -> None:
    with closing(connected(path)) as connection:
        disk.fill(room_bytes=20_000)
        with pytest.raises(sqlite3.OperationalError, match="full"):
            insert_all(connection, range(1, 20))

        assert Path(f"{path}-wal").stat().st_size == 20_000
        disk.heal()
        assert numbers_in(connection)[0] == 0


# Really full ----------------------------------------------------------------------------

# Inserts one row for each line that it is sent, and says how it went.
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


def test_a_process_on_a_full_disk_is_told_so_and_goes_on_when_there_is_room(path: Path) -> None:
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
