"""A file that cannot be written to when it is opened: all of it can be read, and nothing starts."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import supervisor
from supervisor import ConfigError, StoreDegraded
from supervisor.still import open_for_reading
from tests.sessions.cast import Player

PLACES = ["state.db", "."]


@pytest.fixture(autouse=True)
def modes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have modes mean something to everybody, root included."""

    def may_write(path: Path) -> bool:
        return path.exists() and bool(path.stat().st_mode & stat.S_IWUSR)

    monkeypatch.setattr("supervisor.store.sqlite.files._may_write", may_write)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(before & ~0o222)
    try:
        yield
    finally:
        path.chmod(before)


def what_lies_beside(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.parent.iterdir()}


async def lived(path: Path, player: Player) -> str:
    """Who has said something, and waits for more."""
    async with supervisor.open(path, agents=[player.agent]) as sup:
        session = await sup.create("player", title="A life")
        await session.send("hello")
        await player.play_all()
        return session.id


@pytest.mark.parametrize("place", PLACES)
async def test_what_cannot_be_written_to_can_be_read(
    path: Path, player: Player, place: str
) -> None:
    session_id = await lived(path, player)
    there = what_lies_beside(path)
    with read_only(path.parent / place):
        async with supervisor.open(path, agents=[player.agent]) as sup:
            session = sup.session(session_id)
            assert [info.title for info in (await sup.list()).items] == ["A life"]
            assert (await session.transcript())[0].text == "hello"
            assert (await sup.search("hello")).items
            assert "hello" in await session.export("markdown")
            assert (await session.replay(1)).phase == "starting"
            store = (await sup.stats()).store
            assert (store.degraded, store.read_only) == (True, True)

    assert what_lies_beside(path) == there


@pytest.mark.parametrize("place", PLACES)
async def test_what_cannot_be_written_to_is_not_changed(
    path: Path, player: Player, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    session_id = await lived(path, player)
    before = what_lies_beside(path)
    with read_only(path.parent / place):
        async with supervisor.open(path, agents=[player.agent]) as sup:
            session = sup.session(session_id)
            for change in (
                session.send("more"),
                session.append("user", "more"),
                session.set(title="Another"),
                sup.create("player"),
                sup.delete(session_id),
            ):
                with pytest.raises(StoreDegraded, match="read-only") as refusal:
                    await change
                assert refusal.value.hint == "make it and its folder writable"

    assert what_lies_beside(path) == before
    assert "crashed" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("place", PLACES)
async def test_commands_that_only_read_do_so_there_too(
    path: Path, player: Player, place: str
) -> None:
    session_id = await lived(path, player)
    with read_only(path.parent / place):
        async with open_for_reading(str(path)) as sup:
            assert [info.id for info in (await sup.list()).items] == [session_id]


async def test_when_it_can_be_written_to_again_it_is(path: Path, player: Player) -> None:
    session_id = await lived(path, player)
    for ending in ("-wal", "-shm"):  # as SQLite leaves them beside a file that was read-only
        beside = path.with_name(f"{path.name}{ending}")
        beside.touch()
        beside.chmod(0o400)

    async with supervisor.open(path, agents=[player.agent]) as sup:
        for ending in ("-wal", "-shm"):
            assert path.with_name(f"{path.name}{ending}").stat().st_mode & 0o777 == 0o600
        await sup.session(session_id).send("more")
        assert await player.play_all() == ["more"]


async def test_somebody_else_s_file_is_refused_though_it_is_only_read(path: Path) -> None:
    path.write_text("hello, I am no database at all" * 10)  # noqa: ASYNC240 - small
    with read_only(path), pytest.raises(ConfigError, match="no store of ours"):
        async with supervisor.open(path):
            pass
