"""Backups while sessions run, and restores while none does."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import ConfigError, Phase, StoreLocked, StoreTooNew, Supervisor, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store import new_file
from supervisor.store.port import ProcessEntry
from supervisor.store.sqlite import backup as backup_module
from supervisor.store.sqlite.store import open_sqlite
from tests.support.fake_agents import FakeAgent, records


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Where a backup goes: a folder of its own, so that all that is left beside it is seen."""
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies" / "copy.db"


def left_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


async def fill(path: Path, text: str) -> str:
    """A store in which one session has said this; gives its id."""
    async with supervisor.open(path) as sup:
        session = await sup.create("echo")
        await session.prompt(text)
        return session.id


async def said_in(path: Path) -> list[str]:
    async with supervisor.open(path) as sup:
        sessions = [sup.session(info.id) for info in (await sup.list()).items]
        return [message.text for one in sessions for message in await one.transcript()][::2]


# Backups ---------------------------------------------------------------------------------


async def test_a_copy_has_all_that_was_acknowledged_before_the_call(
    on_file: Supervisor, copy: Path, fake_agent: FakeAgent
) -> None:
    session = await on_file.create("fake", key="fake:irc:ann")
    await session.send("running")
    await fake_agent.next_run()
    waiting = await session.send("waiting")
    over = await on_file.create("echo")
    await over.prompt("done")

    size = await on_file.backup(copy)

    assert size == copy.stat().st_size  # noqa: ASYNC240 - small
    assert left_in(copy.parent) == {"copy.db"}
    async with supervisor.open(copy, agents=[fake_agent.agent]) as other:
        copied = other.session(session.id)
        [ended] = await records(copied, "turn_ended")
        assert ended.body["outcome"] == "lost"
        assert [one.input_id for one in [waiting]] == [
            record.body["input_id"] for record in await records(copied, "input_accepted")
        ][1:]
        assert [one.text for one in await other.session(over.id).transcript()] == ["done"] * 2
        fake_agent.finish_open_runs()
    assert (await session.info()).phase is Phase.RUNNING


async def test_a_copy_while_many_write_is_whole(on_file: Supervisor, copy: Path) -> None:
    sessions = [await on_file.create("echo") for _ in range(5)]

    async def talk(session: supervisor.Session) -> None:
        for number in range(10):
            await session.prompt(f"message {number}")

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(talk, session)
        for number in range(5):
            await on_file.backup(copy.with_name(f"{number}.db"))

    for number in range(5):
        async with supervisor.open(copy.with_name(f"{number}.db")) as sup:
            for session in sessions:
                other = sup.session(session.id)
                numbers = [record.seq for record in await records(other)]
                assert numbers == list(range(1, len(numbers) + 1))
                await other.stop()
                assert (await other.repair()).problems == ()


async def test_a_copy_of_a_copy_is_the_same(on_file: Supervisor, copy: Path) -> None:
    await (await on_file.create("echo")).prompt("hello")
    await on_file.backup(copy)

    async with supervisor.open(copy) as sup:
        await sup.backup(copy.with_name("second.db"))

    assert await said_in(copy.with_name("second.db")) == ["hello"]


async def test_a_copy_is_its_owners_alone(on_file: Supervisor, copy: Path) -> None:
    await on_file.backup(copy)

    assert stat.S_IMODE(copy.stat().st_mode) == 0o600  # noqa: ASYNC240 - small


async def test_a_backup_does_not_overwrite_a_file(
    on_file: Supervisor, copy: Path, path: Path
) -> None:
    copy.write_text("precious")  # noqa: ASYNC240 - small

    for target in (copy, copy.parent, path, path.with_name("state.db-wal")):
        with pytest.raises(ConfigError) as refused:
            await on_file.backup(target)
        assert refused.value.hint

    assert copy.read_text() == "precious"  # noqa: ASYNC240 - small
    assert left_in(copy.parent) == {"copy.db"}
    await on_file.create("echo")


async def test_a_missing_folder_is_reported(on_file: Supervisor, copy: Path) -> None:
    with pytest.raises(ConfigError):
        await on_file.backup(copy.parent / "no" / "copy.db")

    assert left_in(copy.parent) == set()


async def test_an_unfinished_copy_of_a_killed_backup_is_replaced(
    on_file: Supervisor, copy: Path
) -> None:
    copy.with_name("copy.db.unfinished").write_text("half")

    await on_file.backup(copy)

    assert "copy.db" in left_in(copy.parent)
    assert len(await said_in(copy)) == 0


async def test_a_failed_backup_leaves_no_partial_file(
    on_file: Supervisor, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(new_file, "sync", fail)

    with pytest.raises(SupervisorError):
        await on_file.backup(copy)

    assert left_in(copy.parent) == set()
    assert not (await on_file.stats()).store.degraded


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
async def test_a_backup_never_has_a_name_of_sqlite(
    on_file: Supervisor, copy: Path, ending: str
) -> None:
    with pytest.raises(ConfigError, match="SQLite gives a meaning") as refusal:
        await on_file.backup(copy.with_name(f"other.db{ending}"))

    assert ending in refusal.value.hint
    assert left_in(copy.parent) == set()


async def test_one_of_many_concurrent_backups_to_one_name_succeeds(
    on_file: Supervisor, copy: Path
) -> None:
    await (await on_file.create("echo")).prompt("hello")
    heard: list[str] = []

    async def make() -> None:
        try:
            await on_file.backup(copy)
            heard.append("made")
        except ConfigError:
            heard.append("refused")

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(make)

    assert sorted(heard) == ["made"] + ["refused"] * 3
    assert left_in(copy.parent) == {"copy.db"}
    assert await said_in(copy) == ["hello"]


async def test_a_memory_store_cannot_be_backed_up(copy: Path) -> None:
    async with supervisor.open(":memory:") as sup:
        with pytest.raises(ConfigError) as refused:
            await sup.backup(copy)

    assert "file" in refused.value.hint


# Back again ------------------------------------------------------------------------------


@pytest.fixture
async def backup(path: Path, copy: Path) -> Path:
    """A copy of the store at `path` from when it had said "before"; now it has said more."""
    made = await fill(path, "before")
    async with supervisor.open(path) as sup:
        await sup.backup(copy)
        await sup.session(made).prompt("after")
    return copy


async def test_restore_replaces_the_store_and_keeps_the_old_file(path: Path, backup: Path) -> None:
    old = await supervisor.restore(backup, path)

    assert old is not None
    assert await said_in(path) == ["before"]
    assert await said_in(old) == ["before", "after"]
    assert await said_in(backup) == ["before"]


async def test_a_restored_store_continues(path: Path, backup: Path) -> None:
    await supervisor.restore(backup, path)
    await fill(path, "again")

    assert await said_in(path) == ["before", "again"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600  # noqa: ASYNC240 - small


async def test_restoring_twice_keeps_both(path: Path, backup: Path) -> None:
    first = await supervisor.restore(backup, path)
    await fill(path, "between")

    second = await supervisor.restore(backup, path)

    assert first != second
    assert second is not None
    assert await said_in(second) == ["before", "between"]


async def test_a_backup_can_be_opened_as_a_store(tmp_path: Path, backup: Path) -> None:
    assert await supervisor.restore(backup, tmp_path / "new.db") is None
    assert await said_in(tmp_path / "new.db") == ["before"]


async def test_an_open_store_is_not_replaced(path: Path, backup: Path) -> None:
    async with supervisor.open(path) as sup:
        with pytest.raises(StoreLocked):
            await supervisor.restore(backup, path)

        await (await sup.create("echo")).prompt("still here")

    assert await said_in(path) == ["before", "after", "still here"]


async def test_restore_keeps_the_wal_of_a_killed_process(
    path: Path, backup: Path, tmp_path: Path
) -> None:
    dead = tmp_path / "dead.db"
    async with supervisor.open(path) as sup:
        await (await sup.create("echo")).prompt("in the wal")
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{dead}{ending}")

    old = await supervisor.restore(backup, dead)

    assert old is not None
    assert await said_in(dead) == ["before"]
    assert await said_in(old) == ["before", "after", "in the wal"]


async def test_a_restore_killed_half_way_loses_nothing(
    path: Path, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = tmp_path / "dead.db"
    async with supervisor.open(path) as sup:
        await (await sup.create("echo")).prompt("in the wal")
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{dead}{ending}")
    put_aside = backup_module._set_aside

    def die_after(path: Path) -> Path:
        put_aside(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(backup_module, "_READER_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(backup_module, "_set_aside", die_after)
    with contextlib.closing(sqlite3.connect(dead)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sessions").fetchall()  # so the WAL cannot be moved
        with pytest.raises(KeyboardInterrupt):
            await supervisor.restore(backup, dead)

    assert await said_in(dead) == ["before", "after", "in the wal"]
    assert not [name for name in left_in(tmp_path) if name.startswith("dead.db.before")]


def an_empty_file(path: Path) -> None:
    path.write_bytes(b"")


def a_text(path: Path) -> None:
    path.write_text("dear diary " * 1_000)


def damaged_inside(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        root = "SELECT rootpage FROM sqlite_schema WHERE name = 'records_by_number'"
        (page,) = connection.execute(root).fetchone()
    pages = bytearray(path.read_bytes())
    pages[(page - 1) * 4096 : page * 4096] = b"\7" * 4096
    path.write_bytes(pages)


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def somebody_elses(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")


def newer(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def missing(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BAD = [an_empty_file, a_text, damaged_inside, half, somebody_elses, newer, missing, a_folder]


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
async def test_a_file_that_is_not_a_backup_is_refused(
    path: Path, backup: Path, tmp_path: Path, spoil: object
) -> None:
    assert callable(spoil)
    spoil(backup)
    before, names = path.read_bytes(), left_in(tmp_path)  # noqa: ASYNC240 - small

    with pytest.raises(StoreTooNew if spoil is newer else SupervisorError) as refused:
        await supervisor.restore(backup, path)

    assert refused.value.hint
    assert "repair" not in refused.value.hint
    assert path.read_bytes() == before  # noqa: ASYNC240 - small
    assert left_in(tmp_path) == names


@pytest.mark.parametrize("spoil", [an_empty_file, a_text, half, somebody_elses, newer])
async def test_restore_keeps_a_damaged_store_unchanged_beside_it(
    path: Path, backup: Path, spoil: object
) -> None:
    assert callable(spoil)
    spoil(path)
    damaged = path.read_bytes()  # noqa: ASYNC240 - small

    old = await supervisor.restore(backup, path)

    assert old is not None
    assert old.read_bytes() == damaged
    assert await said_in(path) == ["before"]


async def test_restore_to_an_invalid_path_is_refused(backup: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    names = left_in(tmp_path)

    for target in (tmp_path / "folder", tmp_path / "no" / "state.db"):
        with pytest.raises(ConfigError) as refused:
            await supervisor.restore(backup, target)
        assert refused.value.hint

    assert left_in(tmp_path) == names


@pytest.mark.parametrize("bad", [5, None, b"x", "", "a\0b", "\ud800"], ids=ascii)
async def test_an_invalid_path_is_refused(backup: Path, path: Path, bad: object) -> None:
    for given in ((bad, path), (backup, bad)):
        with pytest.raises(ConfigError) as refused:
            await supervisor.restore(*given)
        assert refused.value.hint


async def test_a_backup_contains_no_process_entries(tmp_path: Path) -> None:
    process = ProcessEntry(SessionId("s_1"), 1234, 5, "boot")
    async with open_sqlite(tmp_path / "state.db", snapshot_every=200) as store:
        await store.record_process(process)
        await store.backup(tmp_path / "backup.db")

    async with open_sqlite(tmp_path / "backup.db", snapshot_every=200) as copy:
        assert await copy.processes() == []
