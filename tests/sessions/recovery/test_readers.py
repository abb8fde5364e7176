"""Readers without a supervisor show the outcome of the next recovery, and write nothing."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import Session, StoreDegraded, Supervisor, SupervisorError
from supervisor.offline import open_for_reading
from supervisor.store.port import Write
from supervisor.store.sqlite.files import disk_full_error
from supervisor.store.sqlite.store import SqliteStore
from tests.support.fake_agents import FakeAgent
from tests.support.session_states import NEVER

FILES = ("state.db", "state.db-wal", "state.db.lock")


@asynccontextmanager
async def busy_tree(path: Path, agent: FakeAgent) -> AsyncIterator[tuple[Supervisor, Session]]:
    """Yield a supervisor with a running parent, its child, an idle session and a queued input."""
    async with supervisor.open(path, agents=[agent.agent]) as sup:
        parent = await sup.create("fake", restart=NEVER, name="parent")
        await parent.send("work")
        await agent.next_run()
        await parent.send("queued")
        await parent.spawn("fake", "errand", name="child", ttl_seconds=60.0)
        await agent.next_run()
        await sup.create("echo", name="idle")
        await sup.create("fake", name="again")
        try:
            yield sup, parent
        finally:
            agent.finish_open_runs()


@pytest.fixture
async def killed(tmp_path: Path, fake_agent: FakeAgent) -> Path:
    """Return the file as a kill -9 of the supervisor leaves it."""
    async with busy_tree(tmp_path / "state.db", fake_agent):
        (tmp_path / "killed").mkdir()
        for name in FILES:
            shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    return tmp_path / "killed" / "state.db"


async def test_a_reader_shows_the_turn_that_the_next_recovery_will_lose(killed: Path) -> None:
    async with open_for_reading(str(killed)) as sup:
        (foreseen,) = (await sup.list(text="parent")).items
        with pytest.raises(StoreDegraded):
            await sup.session(foreseen.id).seen(1)
    async with supervisor.open(killed, agents=[FakeAgent("fake").agent]) as sup:
        info = await sup.session(foreseen.id).info()

    assert foreseen.last_outcome is not None
    assert foreseen.last_outcome.outcome == "lost"
    assert [item.kind for item in foreseen.attention] == ["failed_session", "lost_turn"]
    numbers = [item.seq for item in foreseen.attention]
    assert [item.seq for item in info.attention] == numbers
    assert min(numbers) > foreseen.seen_seq


async def shown(sup: Supervisor) -> dict[str, str]:
    return {str(one.name): str(one.phase) for one in (await sup.list()).items}


async def recovered(path: Path) -> dict[str, str]:
    """Return the phases after a real recovery, on a copy of the file."""
    folder = path.parent / "copy"
    shutil.copytree(path.parent, folder)
    async with supervisor.open(folder / path.name) as sup:
        return await shown(sup)


async def test_a_reader_shows_what_the_next_recovery_will_do(killed: Path) -> None:
    async with open_for_reading(str(killed)) as sup:
        found = await shown(sup)
        [parent] = (await sup.list(text="parent")).items
        [child] = (await sup.list(text="child")).items
        trees = [one.name for one in await sup.tree()]
        why = await sup.session(parent.id).why()
        stats = await sup.stats()

    assert found == await recovered(killed)
    assert (parent.phase, parent.stop_reason, parent.turn_id) == ("stopped", "agent_crashed", None)
    assert child.stop_reason == "parent_stopped"
    assert trees == ["idle", "again"]
    assert why.waits_for == "nothing"
    assert (stats.running_turns, stats.phases["running"]) == (0, 0)


async def test_a_filter_sees_the_recovered_phase(killed: Path) -> None:
    async with open_for_reading(str(killed)) as sup:
        assert (await sup.list(phase="running")).items == ()
        assert [one.name for one in (await sup.list(phase="suspended")).items] == ["idle", "again"]


async def test_a_reader_writes_nothing(killed: Path) -> None:
    before = [killed.with_name(name).read_bytes() for name in FILES]

    async with open_for_reading(str(killed)) as sup:
        await shown(sup)

    assert [killed.with_name(name).read_bytes() for name in FILES] == before


async def test_a_reader_shows_the_stored_rows_while_a_supervisor_runs(
    tmp_path: Path, fake_agent: FakeAgent
) -> None:
    path = tmp_path / "state.db"
    async with busy_tree(path, fake_agent), open_for_reading(str(path)) as reader:
        assert (await shown(reader))["parent"] == "running"


async def test_a_reader_shows_the_outcome_of_a_recovery_that_is_not_written_yet(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = False

    async def commit(store: SqliteStore, writes: Sequence[Write]) -> list[SupervisorError | None]:
        if not may_write:
            raise disk_full_error("the store cannot be written")
        return await write(store, writes)

    write = SqliteStore.commit
    monkeypatch.setattr(SqliteStore, "commit", commit)
    async with supervisor.open(killed) as sup:
        async with open_for_reading(str(killed)) as reader:
            assert (await shown(reader)) == (await shown(sup))
            assert (await shown(reader))["parent"] == "stopped"
        may_write = True
        await trio.sleep(10.0)
        [idle] = (await sup.list(text="idle")).items
        await sup.session(idle.id).prompt("hello")
        async with open_for_reading(str(killed)) as reader:
            assert (await shown(reader))["idle"] == "idle"  # recovery would suspend it


async def test_an_expired_child_is_shown_as_expired(killed: Path) -> None:
    await trio.sleep(100.0)

    async with open_for_reading(str(killed)) as sup:
        [child] = (await sup.list(text="child")).items

    assert child.stop_reason == "ttl_expired"


async def test_a_supervisor_that_cannot_write_shows_the_recovered_rows(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.runtime.read_only_problem", _is_read_only)

    async with supervisor.open(killed) as sup:
        found = await shown(sup)
        assert (await sup.stats()).store.read_only

    assert found["parent"] == "stopped"


def _is_read_only(path: Path) -> supervisor.StoreDegraded:
    return supervisor.StoreDegraded(f"{path.name} is read-only", hint="make it writable")
