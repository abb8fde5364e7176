"""A real file that cannot be written: by another program's lock, and by a disk that is full."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeAlias

import pytest
import trio

import supervisor
from supervisor import Session, StoreDegraded, Supervisor
from supervisor.core.fold import replay
from supervisor.store.sqlite import files, write
from tests.support.disk.faults import DiskCall, FailingDisk, Failure, failing_disk
from tests.support.fake_agents import FakeAgent, records
from tests.support.store_samples import differences

ROOT = Path(__file__).parents[3]
Fault: TypeAlias = tuple[DiskCall, Failure, str, bool]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself waits for a lock, and that in real time."""
    monkeypatch.setattr(files, "_BUSY_MS", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture(autouse=True)
def disk() -> Iterator[FailingDisk]:
    """Well until the test says otherwise."""
    with failing_disk() as failing:
        yield failing


@pytest.fixture
async def sup(path: Path, fake_agent: FakeAgent) -> AsyncIterator[Supervisor]:
    async with supervisor.open(path, agents=[fake_agent.agent]) as opened:
        try:
            yield opened
        finally:
            fake_agent.finish_open_runs()


@contextmanager
def locked(path: Path, how: str = "IMMEDIATE") -> Iterator[None]:
    """As another program that has begun to write, and does not end."""
    other = sqlite3.connect(path, isolation_level=None, timeout=1.0)
    other.execute(f"BEGIN {how}")
    try:
        yield
    finally:
        other.rollback()
        other.close()


async def check_stored(sup: Supervisor, session: Session) -> None:
    stored = await sup._services.store.read(session.id)
    kept = await sup._services.store.records(session.id)
    assert stored is not None
    assert [record.seq for record in kept] == list(range(1, stored.last_seq + 1))
    assert differences(replay(kept), stored.row) == []


# A foreign lock -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
async def test_a_foreign_lock_is_described(
    path: Path, sup: Supervisor, session: Session, how: str
) -> None:
    with locked(path, how):
        for text in ("the first to meet it", "one who need not try"):
            with pytest.raises(StoreDegraded) as refusal:
                await session.send(text)
            assert "state.db" in str(refusal.value)
            assert "locked" in str(refusal.value)
            assert refusal.value.hint == "close that program's transaction"


async def test_reads_go_on_under_a_foreign_lock(
    path: Path, sup: Supervisor, session: Session
) -> None:
    with locked(path):
        with pytest.raises(StoreDegraded):
            await session.send("hello")

        assert (await sup.list()).items[0].id == session.id
        assert (await sup.stats()).sessions == 1
        assert await session.history()
        assert await sup.exists(session.id)


async def test_the_store_recovers_and_contains_nothing_that_was_refused(
    path: Path, sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    with locked(path):
        with pytest.raises(StoreDegraded):
            await session.send("hello")
        await trio.sleep(60)
    await trio.sleep(2.1)

    await session.send("again")

    assert (await fake_agent.next_run()).turn.text == "again"
    assert len(await records(session, "input_accepted")) == 1
    await check_stored(sup, session)


async def test_brakes_work_under_a_foreign_lock(
    path: Path, sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    await session.send("first")
    run = await fake_agent.next_run()
    await session.send("second")
    with locked(path):
        with trio.fail_after(5):
            await session.stop()
        assert run.over.is_set()
        assert (await session.info()).phase == "stopped"
    await trio.sleep(2.1)

    stored = await sup._services.store.read(session.id)
    assert stored is not None
    assert stored.row.phase == "stopped"
    await check_stored(sup, session)


async def test_a_session_is_not_deleted_under_a_foreign_lock_and_is_afterwards(
    path: Path, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    with locked(path), pytest.raises(StoreDegraded):
        await sup.delete(session.id)
    await trio.sleep(2.1)
    assert await sup.exists(session.id)

    await sup.delete(session.id)

    assert not await sup.exists(session.id)


async def test_a_file_locked_at_open_is_readable(path: Path, fake_agent: FakeAgent) -> None:
    async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
        session = await sup.create("fake")
        await session.send("first")
        (await fake_agent.next_run()).finish("done")
        await trio.sleep(1)
    with locked(path):
        async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
            assert [info.id for info in (await sup.list()).items] == [session.id]
            with pytest.raises(StoreDegraded):
                await sup.session(session.id).send("more")


# A disk that fails ---------------------------------------------------------------------------

# What fails, how, in which words, and whether it is certain then that nothing is in the file.
FAULTS: dict[str, Fault] = {
    "full": ("write", "full", "the disk is full", True),
    "read-only": ("write", "read_only", "the file is read-only", True),
    "broken": ("write", "write_error", "the disk fails", True),
    "not kept": ("sync", "sync_error", "the disk fails", False),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_failing_disk_is_described_and_the_store_recovers(
    disk: FailingDisk, sup: Supervisor, session: Session, fake_agent: FakeAgent, fault: Fault
) -> None:
    action, failure, words, is_surely_unwritten = fault
    disk.fail(action, with_=failure, on="wal")
    refusals: list[StoreDegraded] = []

    async def send() -> None:
        try:
            await session.send("hello")
        except StoreDegraded as refusal:
            refusals.append(refusal)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.sleep(5)
        assert len(refusals) == is_surely_unwritten
        with pytest.raises(StoreDegraded, match=words) as refusal:
            await session.send("more")
        assert refusal.value.hint
        assert await session.history()
        disk.heal()
        await trio.sleep(2.1)

    if is_surely_unwritten:
        await session.send("hello")
    assert (await fake_agent.next_run()).turn.text == "hello"
    assert len(await records(session, "input_accepted")) == 1
    await check_stored(sup, session)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_brakes_work_on_a_disk_that_fails(
    disk: FailingDisk, sup: Supervisor, session: Session, fake_agent: FakeAgent, fault: Fault
) -> None:
    await session.send("first")
    run = await fake_agent.next_run()
    disk.fail(fault[0], with_=fault[1], on="wal")

    with trio.fail_after(5):
        assert (await session.interrupt()).stopped == 1
        await session.stop()

    assert run.over.is_set()
    disk.heal()
    await trio.sleep(2.1)
    stored = await sup._services.store.read(session.id)
    assert stored is not None
    assert stored.row.phase == "stopped"
    await check_stored(sup, session)


# A disk that is full --------------------------------------------------------------------------

FULL = """
    import json, resource, sys
    from pathlib import Path

    import trio

    import supervisor
    from actors.testing import VirtualClock
    from supervisor.store.sqlite import files

    said = {{}}


    async def main():
        path = Path(sys.argv[1])
        async with supervisor.open(path) as sup:
            session = await sup.create("echo")
            await session.prompt("before")
            wal = path.with_name(path.name + "-wal").stat().st_size
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (wal + {more}, hard))
            for text in ("the first to meet it", "one who need not try"):
                try:
                    with trio.fail_after(5):
                        await session.send(text)
                except supervisor.StoreDegraded as error:
                    said[text] = dict(problem=error.args[0], hint=error.hint, code=error.code)
            said["read"] = len(await session.history()) > 0
            {brake}
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            await trio.sleep(5)
            {after}
            said["texts"] = [one.text for one in await session.transcript() if one.role == "user"]
            said["phase"] = str((await session.info()).phase.value)
            kept = [record.seq for group in await session.history() for record in group.records]
            said["whole"] = kept == list(range(1, len(kept) + 1))
        print(json.dumps(said))


    trio.run(main, clock=VirtualClock())
"""


def run_on_a_full_disk(
    path: Path, *, more: int = 1, brake: str = "pass", after: str = "pass"
) -> dict[str, Any]:
    """What a program says that runs while no file of its may grow any further."""
    done = subprocess.run(
        [sys.executable, "-c", dedent(FULL).format(more=more, brake=brake, after=after), str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "crashed" not in done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("more", [0, 1, 24, 4_096])
def test_a_full_disk_is_described_and_the_store_recovers(path: Path, more: int) -> None:
    said = run_on_a_full_disk(path, more=more, after='await session.prompt("and on")')

    for text in ("the first to meet it", "one who need not try"):
        assert said[text]["code"] == "store_degraded"
        assert "state.db cannot be used" in said[text]["problem"]
        assert said[text]["hint"]
    assert said["read"]
    assert said["texts"] == ["before", "and on"]
    assert (said["phase"], said["whole"]) == ("idle", True)


def test_a_session_stops_on_a_full_disk(path: Path) -> None:
    said = run_on_a_full_disk(path, brake="await session.stop()")

    assert said["phase"] == "stopped"
    assert said["whole"]


async def test_a_write_that_meets_a_damaged_page_is_refused_and_reported(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = await sup.create("fake")
    commit = write.commit

    def damaged(*_: object, **_more: object) -> list[Any]:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    monkeypatch.setattr(write, "commit", damaged)
    for _ in range(2):
        with trio.fail_after(60), pytest.raises(StoreDegraded, match="it is damaged"):
            await session.send("hello")

    [finding] = (await sup.stats()).store.findings
    assert finding.code == "store-damaged"
    assert "the store state.db cannot be used: it is damaged" in caplog.text
    monkeypatch.setattr(write, "commit", commit)
