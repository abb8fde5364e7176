"""Tests of simulated power cuts: they lose data where SQLite may lose it, and nowhere else."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from tests.support.disk.disk_events import (
    Created,
    Deleted,
    Found,
    Noted,
    Operation,
    Synced,
    SyncFailed,
    Wrote,
)
from tests.support.disk.faults import failing_disk
from tests.support.disk.images import Image, image_of, images_of
from tests.support.disk.recording import RecordedDisk, recorded_disk
from tests.support.disk.shim import swift_disk

Verdict: TypeAlias = Literal["fine", "lost", "half there", "corrupt"]


# Acknowledged and surviving commits -------------------------------------------------------


def connected(path: Path, journal_mode: str, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {journal_mode}")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    # Many checkpoints in a short run.
    connection.execute("PRAGMA wal_autocheckpoint = 12")
    return connection


def insert_pairs(connection: sqlite3.Connection, disk: RecordedDisk, numbers: range) -> None:
    """Insert a small and a large row in each transaction; note each returned commit."""
    connection.execute("CREATE TABLE IF NOT EXISTS pairs (n, side, text)")
    for n in numbers:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO pairs VALUES (?, 'left', ?)", (n, "x" * 300))
        connection.execute("INSERT INTO pairs VALUES (?, 'right', ?)", (n, "y" * 5000))
        connection.execute("COMMIT")
        disk.note(n)


def recorded_life(path: Path, journal_mode: str, synchronous: str) -> RecordedDisk:
    """Use two connections one after the other, so a log ends and another starts."""
    with recorded_disk() as disk:
        for numbers in (range(30), range(30, 60)):
            connection = connected(path, journal_mode, synchronous)
            insert_pairs(connection, disk, numbers)
            connection.close()
    return disk


def verdict_on(image: Image, folder: Path) -> Verdict:
    connection = sqlite3.connect(image.materialise(folder))
    try:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return "corrupt"
        left, right = (pairs_in(connection, side) for side in ("left", "right"))
    except sqlite3.DatabaseError:
        return "corrupt"
    finally:
        connection.close()
    if left != right or left != list(range(len(left))):
        return "half there"
    return "fine" if len(left) >= len(image.notes) else "lost"


def pairs_in(connection: sqlite3.Connection, side: str) -> list[int]:
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        return []
    found = connection.execute("SELECT n FROM pairs WHERE side = ? ORDER BY n", (side,))
    return [n for (n,) in found]


def verdicts(disk: RecordedDisk, folder: Path, count: int) -> Counter[Verdict]:
    with swift_disk():
        return Counter(verdict_on(image, folder) for image in disk.images(seed=1, count=count))


# Guarantees of SQLite for each setting ---------------------------------------------------


@pytest.mark.parametrize(("journal_mode", "synchronous"), [("WAL", "FULL"), ("DELETE", "EXTRA")])
def test_a_power_cut_loses_no_commit_where_sqlite_guarantees_durability(
    tmp_path: Path, journal_mode: str, synchronous: str
) -> None:
    disk = recorded_life(tmp_path / "a.db", journal_mode, synchronous)

    assert verdicts(disk, tmp_path, 300) == {"fine": 300}


def test_synchronous_normal_loses_commits_in_some_images(tmp_path: Path) -> None:
    disk = recorded_life(tmp_path / "a.db", "WAL", "NORMAL")

    found = verdicts(disk, tmp_path, 100)

    assert found["lost"] > 10
    assert found.keys() <= {"fine", "lost"}


def test_a_file_without_syncs_is_corrupt_in_some_images(tmp_path: Path) -> None:
    disk = recorded_life(tmp_path / "a.db", "WAL", "OFF")

    found = verdicts(disk, tmp_path, 100)

    assert found["lost"] > 10
    assert found["corrupt"] > 3


def test_a_journal_that_reappears_undoes_a_commit(tmp_path: Path) -> None:
    # The difference between FULL and EXTRA is one sync of a folder.
    disk = recorded_life(tmp_path / "a.db", "DELETE", "FULL")

    found = verdicts(disk, tmp_path, 100)

    assert found["lost"] > 3
    assert found.keys() <= {"fine", "lost"}


def test_a_power_cut_during_recovery_loses_nothing(tmp_path: Path) -> None:
    first = recorded_life(tmp_path / "a.db", "WAL", "FULL")

    for number, image in enumerate(first.images(seed=2, count=20)):
        path = image.materialise(tmp_path)
        with recorded_disk(seed=number + 1) as second:
            for promised in image.notes:
                second.note(promised)
            connection = connected(path, "WAL", "FULL")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        assert verdicts(second, tmp_path, 15) == {"fine": 15}


def test_a_failed_sync_loses_no_acknowledged_commit(tmp_path: Path) -> None:
    with failing_disk() as failing, recorded_disk() as disk:
        connection = connected(tmp_path / "a.db", "WAL", "FULL")
        insert_pairs(connection, disk, range(10))
        failing.fail("sync", with_="sync_error", on="wal", how_long="once")
        with pytest.raises(sqlite3.OperationalError):
            insert_pairs(connection, disk, range(10, 20))
        insert_pairs(connection, disk, range(10, 20))
        connection.close()

    assert any(isinstance(it, SyncFailed) for it in disk.operations)
    assert verdicts(disk, tmp_path, 100) == {"fine": 100}


@pytest.mark.soak
def test_thousands_of_power_cuts_lose_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("covered", "5000 power cuts")
    disk = recorded_life(tmp_path / "a.db", "WAL", "FULL")

    assert verdicts(disk, tmp_path, 5_000) == {"fine": 5_000}


# Contents of an image --------------------------------------------------------------------

ONE_WRITE: tuple[Operation, ...] = (Found("/d/a.db", b"old!"), Wrote("/d/a.db", 0, b"new!"))


def contents(operations: tuple[Operation, ...], name: str = "a.db") -> set[bytes | None]:
    """Return all contents that the file may have after these events."""
    cut = len(operations)
    found = (image_of(operations, cut=cut, seed=str(seed)) for seed in range(200))
    return {image.files.get(name) for image in found}


def test_an_unsynced_write_is_kept_or_lost_or_torn() -> None:
    found = contents(ONE_WRITE)

    assert found > {b"old!", b"new!", b"ned!"}
    assert all(it is not None and len(it) == 4 for it in found)


def test_a_synced_write_is_kept() -> None:
    assert contents((*ONE_WRITE, Synced("/d/a.db", and_folder=False))) == {b"new!"}


def test_a_sync_of_another_file_has_no_effect() -> None:
    other = (Found("/d/b.db", b""), Synced("/d/b.db", and_folder=True))

    assert b"old!" in contents((*ONE_WRITE, *other))


def test_a_write_with_a_failed_sync_stays_in_doubt() -> None:
    doubtful = (*ONE_WRITE, SyncFailed("/d/a.db"))
    later = (Wrote("/d/a.db", 4, b"more"), Synced("/d/a.db", and_folder=False))

    found = contents((*doubtful, *later))

    assert {b"old!more", b"new!more"} <= found
    assert all(it is not None and it.endswith(b"more") for it in found)


def test_a_new_file_may_be_missing_until_its_folder_is_synced() -> None:
    made = (*ONE_WRITE, Created("/d/a.db-wal"), Synced("/d/a.db-wal", and_folder=False))

    assert contents(made, "a.db-wal") == {None, b""}
    assert contents((*made, Synced("/d/a.db", and_folder=True)), "a.db-wal") == {b""}


def test_a_deleted_file_may_reappear_until_its_folder_is_synced() -> None:
    there = (*ONE_WRITE, Found("/d/a.db-wal", b"log"))

    assert contents((*there, Deleted("/d/a.db-wal", and_folder=False)), "a.db-wal") == {
        None,
        b"log",
    }
    assert contents((*there, Deleted("/d/a.db-wal", and_folder=True)), "a.db-wal") == {None}


def test_a_large_write_loses_whole_sectors_or_has_garbage_in_them() -> None:
    found = contents((Found("/d/a.db", bytes(2048)), Wrote("/d/a.db", 0, b"x" * 2048)))

    sectors = {it[start : start + 512] for it in found if it for start in range(0, 2048, 512)}
    assert {bytes(512), b"x" * 512} <= sectors
    assert any(len(set(sector)) > 100 for sector in sectors)


def test_an_image_has_the_notes_from_before_the_cut() -> None:
    operations = (Noted("a"), *ONE_WRITE, Noted("b"))

    notes = [image.notes for image in images_of(operations, seed=0, count=5)]

    assert notes == [(), ("a",), ("a",), ("a",), ("a", "b")]


def test_every_cut_is_chosen_once_before_any_repetition() -> None:
    cuts = [image.cut for image in images_of(ONE_WRITE, seed=0, count=7)]

    assert sorted(set(cuts)) == [0, 1, 2]
    assert max(Counter(cuts).values()) == 3


def test_an_image_can_be_rebuilt_from_its_repr(tmp_path: Path) -> None:
    disk = recorded_life(tmp_path / "a.db", "WAL", "NORMAL")

    for image in disk.images(seed=5, count=20):
        assert disk.image(cut=image.cut, seed=image.seed) == image
        assert f"cut={image.cut}, seed='{image.seed}'" in repr(image)


def test_an_image_replaces_the_previous_image(tmp_path: Path) -> None:
    whole = image_of((*ONE_WRITE, Found("/d/a.db-wal", b"log")), cut=3, seed="0")
    without_log = image_of(ONE_WRITE, cut=1, seed="0")

    whole.materialise(tmp_path)
    (tmp_path / "a.db-shm").write_bytes(b"left over")
    without_log.materialise(tmp_path)

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"a.db": b"old!"}
