"""A file that is deleted, moved or replaced while it is open: noticed before it is too late."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import ConfigError, Session, StoreDegraded, Supervisor
from supervisor.core.fold import replay
from supervisor.sessions import store_health

PATIENCE_SECONDS = 10.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def sup(path: Path) -> AsyncIterator[Supervisor]:
    async with supervisor.open(path) as opened:
        yield opened


@pytest.fixture
async def session(sup: Supervisor) -> Session:
    session = await sup.create("echo")
    await session.prompt("before")
    return session


def delete(path: Path) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        one.unlink()


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def move(here: Path, there: Path) -> None:
    for one in list(here.glob("state.db*")):
        one.rename(there / one.name)


def replace(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy(path, other)
    other.replace(path)


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name(f"{path.parent.name} elsewhere"))


ACTIONS: tuple[Callable[[Path], None], ...] = (delete, delete_log, replace, move_folder)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
async def test_no_write_is_acknowledged_into_a_deleted_file(
    sup: Supervisor, session: Session, path: Path, action: Callable[[Path], None]
) -> None:
    action(path)

    with pytest.raises(StoreDegraded) as refused:
        await session.send("after")

    assert refused.value.hint == "put it back where it was, or restore a backup and start again"
    assert (await sup.stats()).store.degraded
    assert next(iter(await session.transcript())).text == "before"
    with pytest.raises(StoreDegraded):
        await sup.create("echo")


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
async def test_a_deleted_file_is_noticed_while_the_store_is_idle(
    path: Path, action: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_health, "uses_real_clock", lambda: True)
    async with supervisor.open(path) as sup:
        await sup.create("echo")
        await trio.sleep(PATIENCE_SECONDS)
        assert not (await sup.stats()).store.degraded
        action(path)

        await trio.sleep(2.0 * store_health.CHECK_SECONDS)

        assert (await sup.stats()).store.degraded


async def test_the_file_check_of_a_memory_store_does_nothing() -> None:
    async with supervisor.open() as sup:
        await store_health.check_file(sup._services)

        assert not (await sup.stats()).store.degraded


async def test_an_input_sent_while_the_file_was_deleted_is_not_acknowledged(
    sup: Supervisor, session: Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = supervisor.store.sqlite.write.commit

    def commit_and_lose(*args: object, **more: object) -> object:
        answer = commit(*args, **more)
        delete(path)
        return answer

    monkeypatch.setattr(supervisor.store.sqlite.write, "commit", commit_and_lose)
    acknowledged = False
    with trio.move_on_after(PATIENCE_SECONDS), suppress(StoreDegraded):
        await session.send("in the middle")
        acknowledged = True

    assert not acknowledged
    assert (await sup.stats()).store.degraded


async def test_the_store_recovers_when_the_file_is_restored(
    sup: Supervisor, session: Session, path: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    move(tmp_path, away)
    with pytest.raises(StoreDegraded):
        await session.send("too early")
    move(away, tmp_path)
    with trio.fail_after(PATIENCE_SECONDS):
        while (await sup.stats()).store.degraded:  # noqa: ASYNC110 - it tries again by itself
            await trio.sleep(0.5)

    assert (await session.prompt("after")).text == "after"
    stored = await sup._services.store.read(session.id)
    assert stored is not None
    assert replay(await sup._services.store.records(session.id)) == stored.row


async def test_a_replacement_file_is_neither_read_nor_written(
    sup: Supervisor, session: Session, path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    async with supervisor.open(other) as second:
        stranger = await second.create("echo", name="stranger")
    other.replace(path)
    before = path.read_bytes()  # noqa: ASYNC240 - small

    with pytest.raises(StoreDegraded):
        await session.send("after")
    names = [info.id for info in (await sup.list()).items]

    assert names == [session.id]
    assert not await sup.exists(stranger.id)
    assert path.read_bytes() == before  # noqa: ASYNC240 - small


async def test_a_file_with_two_names_is_refused(tmp_path: Path, path: Path) -> None:
    async with supervisor.open(path):
        os.link(path, tmp_path / "other.db")
        with pytest.raises(ConfigError, match="hard link") as refused:
            async with supervisor.open(tmp_path / "other.db"):
                pass
    assert refused.value.hint
    with pytest.raises(ConfigError, match="hard link"):
        async with supervisor.open(path):
            pass

    (tmp_path / "other.db").unlink()
    async with supervisor.open(path):
        pass


async def test_a_killed_restore_leaves_no_second_name(path: Path) -> None:
    async with supervisor.open(path) as sup:
        session = await sup.create("echo")
    os.link(path, path.with_name("state.db.before-restore"))  # and then it was killed

    async with supervisor.open(path) as sup:
        assert await sup.exists(session.id)
