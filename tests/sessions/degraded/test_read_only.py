"""A file that cannot be written to when it is opened: all of it can be read, and nothing starts."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import supervisor
from supervisor import ConfigError, StoreDegraded
from supervisor.offline import open_for_reading
from tests.support.fake_agents import FakeAgent

PLACES = ["state.db", "."]


@pytest.fixture(autouse=True)
def modes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make file modes apply to root too."""

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


async def lived(path: Path, fake_agent: FakeAgent) -> str:
    """Who has said something, and waits for more."""
    async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
        session = await sup.create("fake", title="A life")
        await session.send("hello")
        await fake_agent.finish_all()
        return session.id


@pytest.mark.parametrize("place", PLACES)
async def test_an_unwritable_store_can_be_read(
    path: Path, fake_agent: FakeAgent, place: str
) -> None:
    session_id = await lived(path, fake_agent)
    there = what_lies_beside(path)
    with read_only(path.parent / place):
        async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
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
async def test_an_unwritable_store_is_not_changed(
    path: Path, fake_agent: FakeAgent, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    session_id = await lived(path, fake_agent)
    before = what_lies_beside(path)
    with read_only(path.parent / place):
        async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
            session = sup.session(session_id)
            for change in (
                session.send("more"),
                session.append("user", "more"),
                session.set(title="Another"),
                sup.create("fake"),
                sup.delete(session_id),
            ):
                with pytest.raises(StoreDegraded, match="read-only") as refusal:
                    await change
                assert refusal.value.hint == (
                    "make it and its directory writable, then open it again (restart the daemon):"
                    " it stays read-only until then"
                )

    assert what_lies_beside(path) == before
    assert "crashed" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("place", PLACES)
async def test_reading_commands_work_in_a_read_only_folder(
    path: Path, fake_agent: FakeAgent, place: str
) -> None:
    session_id = await lived(path, fake_agent)
    with read_only(path.parent / place):
        async with open_for_reading(str(path)) as sup:
            assert [info.id for info in (await sup.list()).items] == [session_id]


async def test_a_store_that_is_writable_again_is_written(path: Path, fake_agent: FakeAgent) -> None:
    session_id = await lived(path, fake_agent)
    for ending in ("-wal", "-shm"):  # as SQLite leaves them beside a file that was read-only
        beside = path.with_name(f"{path.name}{ending}")
        beside.touch()
        beside.chmod(0o400)

    async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
        for ending in ("-wal", "-shm"):
            assert path.with_name(f"{path.name}{ending}").stat().st_mode & 0o777 == 0o600
        await sup.session(session_id).send("more")
        assert await fake_agent.finish_all() == ["more"]


async def test_a_foreign_database_is_refused_even_read_only(path: Path) -> None:
    path.write_text("hello, I am no database at all" * 10)  # noqa: ASYNC240 - small
    with read_only(path), pytest.raises(ConfigError, match="not an understudy store"):
        async with supervisor.open(path):
            pass
