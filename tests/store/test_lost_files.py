"""A database that is empty, without its WAL or damaged is reported, never replaced in silence."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import StoreDegraded, StoreFinding
from supervisor.cli.doctor.storage import check_store, find_store
from supervisor.offline import open_for_reading
from supervisor.store.new_file import NewFile
from supervisor.store.sqlite import files
from supervisor.store.sqlite.files import degraded_error
from supervisor.store.sqlite.lock import is_held

ENDINGS = ("", "-wal", ".lock")


@pytest.fixture
async def killed(tmp_path: Path) -> Path:
    """Return a store with three sessions as a kill -9 of its supervisor leaves it."""
    path, copy = tmp_path / "state.db", tmp_path / "killed" / "state.db"
    async with supervisor.open(path) as sup:
        for _ in range(3):
            await (await sup.create("echo")).prompt("hello " * 300)
        copy.parent.mkdir()
        for ending in ENDINGS:
            shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    return copy


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def names_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def size_of(path: Path) -> int:
    return path.stat().st_size


def first_bytes(path: Path) -> bytes:
    return path.read_bytes()[:16]


def move_wal_into(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def findings_of(path: Path) -> list[str]:
    """Open the store, wait for its check, and return the codes of its findings."""
    async with supervisor.open(path) as sup:
        await trio.sleep(1.0)  # virtual: it passes when the check has ended
        found = (await sup.stats()).store.findings
        assert (await sup.list()).items
        return [one.code for one in found]


async def doctor_codes(path: Path) -> list[str]:
    return [str(one.code) for one in await check_store(path) if one.level == "error"]


async def test_an_unclean_end_without_loss_has_no_finding(
    killed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await doctor_codes(killed) == []
    with caplog.at_level(logging.INFO, "supervisor"):
        assert await findings_of(killed) == []

    assert "found no damage" in caplog.text


async def test_a_clean_end_needs_no_check(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    await findings_of(killed)
    caplog.clear()

    with caplog.at_level(logging.INFO, "supervisor"):
        assert await findings_of(killed) == []

    assert "check after" not in caplog.text


@pytest.mark.parametrize("keep_wal", [True, False])
async def test_an_emptied_database_is_refused_and_left_alone(
    killed: Path, *, keep_wal: bool
) -> None:
    os.truncate(killed, 0)
    if not keep_wal:
        beside(killed, "-wal").unlink()

    for opened in (supervisor.open(killed), open_for_reading(str(killed))):
        with pytest.raises(StoreDegraded, match="it is empty") as refused:
            async with opened:
                pass
        assert "understudy restore" in refused.value.hint

    assert size_of(killed) == 0
    assert beside(killed, "-wal").exists() is keep_wal
    assert await doctor_codes(killed) == ["store-unreadable"]


@pytest.mark.parametrize("keep_wal", [True, False])
async def test_a_missing_database_beside_its_notes_is_refused(
    killed: Path, *, keep_wal: bool
) -> None:
    beside(killed, "").unlink()
    if not keep_wal:
        beside(killed, "-wal").unlink()

    for opened in (supervisor.open(killed), open_for_reading(str(killed))):
        with pytest.raises(StoreDegraded, match="it is missing, and had") as refused:
            async with opened:
                pass
        assert "understudy restore" in refused.value.hint

    assert not beside(killed, "").exists()
    assert beside(killed, "-wal").exists() is keep_wal
    assert await doctor_codes(killed) == ["store-unreadable"]


async def test_a_new_store_begins_as_the_hint_of_the_refusal_says(killed: Path) -> None:
    beside(killed, "").unlink()
    with pytest.raises(StoreDegraded) as refused:
        async with supervisor.open(killed):
            pass

    for name in refused.value.hint.partition("move these away: ")[2].split():
        killed.with_name(name).unlink()

    async with supervisor.open(killed) as sup:
        assert (await sup.list()).items == ()
        assert (await sup.stats()).store.findings == ()


async def test_a_missing_database_is_replaced_by_a_restored_backup(
    killed: Path, tmp_path: Path
) -> None:
    async with supervisor.open(killed) as sup:
        await sup.backup(tmp_path / "backup.db")
    beside(killed, "").unlink()

    await supervisor.restore(tmp_path / "backup.db", killed)

    assert await findings_of(killed) == []


def test_the_hint_names_the_directory_in_which_no_index_can_be_created(tmp_path: Path) -> None:
    """SQLite's error is the same for a missing directory and for a read-only one."""
    with pytest.raises(sqlite3.OperationalError) as failed:
        sqlite3.connect(tmp_path / "missing" / "state.db")

    found = degraded_error(failed.value, tmp_path / "state.db")

    assert found is not None
    assert "exists and is writable" in found.hint


async def test_a_zeroed_first_page_is_refused_as_damage(killed: Path) -> None:
    move_wal_into(killed)
    with killed.open("r+b") as file:
        file.write(bytes(4096))

    with pytest.raises(StoreDegraded, match="first page"):
        async with supervisor.open(killed):
            pass


async def test_a_first_page_torn_by_a_power_cut_is_taken_from_the_wal(killed: Path) -> None:
    with killed.open("r+b") as file:
        file.write(b"\xff" * 512)

    assert await doctor_codes(killed) == []
    assert await findings_of(killed) == []
    assert first_bytes(killed) == b"SQLite format 3\0"


async def test_a_torn_first_page_beside_a_damaged_wal_is_refused_as_damage(killed: Path) -> None:
    wal = beside(killed, "-wal")
    wal.write_bytes(bytes(size_of(wal)))
    with killed.open("r+b") as file:
        file.write(b"\xff" * 512)

    for _ in range(2):
        with pytest.raises(StoreDegraded) as refused:
            async with supervisor.open(killed):
                pass
        assert "understudy restore" in refused.value.hint
    assert await doctor_codes(killed) == ["store-unreadable"]


async def test_an_empty_file_without_notes_is_refused(killed: Path) -> None:
    for ending in ENDINGS:
        beside(killed, ending).unlink()
    beside(killed, "").touch()

    for opened in (supervisor.open(killed), open_for_reading(str(killed))):
        with pytest.raises(StoreDegraded, match="it is empty") as refused:
            async with opened:
                pass
        assert "to begin a new store, move these away: state.db" in refused.value.hint

    assert size_of(killed) == 0
    assert find_store(str(killed)) == killed
    assert await doctor_codes(killed) == ["store-unreadable"]


async def test_a_new_store_replaces_an_empty_file_as_the_hint_says(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    path.touch()
    with pytest.raises(StoreDegraded) as refused:
        async with supervisor.open(path):
            pass

    for name in refused.value.hint.partition("move these away: ")[2].split():
        path.with_name(name).unlink()

    async with supervisor.open(path) as sup:
        assert (await sup.stats()).store.findings == ()


class Killed(BaseException):
    """The end of the process, as far as a test can have it."""


@pytest.mark.parametrize("step", ["create", "sync", "replace", "close"])
async def test_a_kill_during_the_creation_does_not_prevent_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "new.db"

    def kill(*_: object, **_more: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(NewFile, "close", kill if step == "close" else lambda _: None)
        if step == "create":
            patched.setattr(files, "_connect", kill)
        elif step == "sync":
            patched.setattr(files, "sync", kill)
        elif step == "replace":
            patched.setattr(NewFile, "replace", kill)
        with pytest.raises(Killed):
            async with supervisor.open(path):
                pass
    assert step == "close" or any(name.endswith(".unfinished") for name in names_in(tmp_path))

    async with supervisor.open(path) as sup:
        assert (await sup.stats()).store.findings == ()
    assert names_in(tmp_path) == {"new.db", "new.db.lock"}


async def test_a_missing_wal_is_a_finding(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    move_wal_into(killed)
    async with supervisor.open(killed) as sup:
        await (await sup.create("echo")).prompt("later")
        for ending in ("", ".lock"):
            shutil.copy(f"{killed}{ending}", f"{killed}.2{ending}")
    copy = killed.with_name("state.db.2")

    assert await doctor_codes(copy) == ["records-lost"]
    assert await findings_of(copy) == ["records-lost"]
    assert "write-ahead log is missing or damaged" in caplog.text
    assert await findings_of(copy) == []  # said once; the store goes on from what is left


async def test_a_damaged_wal_is_a_finding(killed: Path) -> None:
    move_wal_into(killed)
    async with supervisor.open(killed) as sup:
        await (await sup.create("echo")).prompt("later")
        for ending in ENDINGS:
            shutil.copy(f"{killed}{ending}", f"{killed}.2{ending}")
    copy = killed.with_name("state.db.2")
    content = bytearray(beside(copy, "-wal").read_bytes())
    content[32 + 24 + 100] ^= 0xFF  # in the first frame
    beside(copy, "-wal").write_bytes(content)

    assert await findings_of(copy) == ["records-lost"]


async def test_a_wal_that_another_program_applied_is_not_a_loss(killed: Path) -> None:
    move_wal_into(killed)
    beside(killed, "-wal").unlink(missing_ok=True)

    assert await findings_of(killed) == []


async def test_a_zeroed_page_is_found_by_the_check_in_the_background(killed: Path) -> None:
    move_wal_into(killed)
    with closing(sqlite3.connect(killed)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'kept_by_session'"
        ).fetchone()
    with killed.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(bytes(4096))

    assert "store-damaged" in await doctor_codes(killed)
    assert await findings_of(killed) == ["store-damaged"]


async def test_a_restored_backup_is_not_a_loss(killed: Path, tmp_path: Path) -> None:
    async with supervisor.open(killed) as sup:
        await sup.backup(tmp_path / "backup.db")
        await sup.create("echo")

    await supervisor.restore(tmp_path / "backup.db", killed)

    assert await findings_of(killed) == []


async def test_a_finding_has_a_code_a_detail_and_a_hint(killed: Path) -> None:
    beside(killed, "-wal").unlink()

    async with supervisor.open(killed) as sup:
        [found] = (await sup.stats()).store.findings

    assert isinstance(found, StoreFinding)
    assert "ended at" in found.detail
    assert "backup" in found.hint


async def test_the_lock_is_probed_without_refusing_a_supervisor(killed: Path) -> None:
    assert not is_held(killed)
    async with supervisor.open(killed):
        assert is_held(killed)
    assert not is_held(killed)
