"""Locks of database files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import supervisor
from supervisor import (
    StoreDegraded,
    StoreLocked,
    SupervisorError,
)
from supervisor.store.sqlite.lock import lock_path
from supervisor.store.sqlite.store import open_sqlite
from tests.support.database_files import use


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def test_a_second_process_is_refused_with_the_owner_and_start_time(path: Path) -> None:
    async with supervisor.open(path) as first:
        with pytest.raises(StoreLocked, match=rf"process {os.getpid()}, since \d{{4}}-") as refused:
            await use(path)

        assert "stop it" in refused.value.hint
        await first.create("echo")
    await use(path)


async def test_only_an_orderly_exit_clears_the_lock_file(path: Path) -> None:
    await use(path)
    assert "pid" not in json.loads(lock_path(path).read_text())

    with pytest.raises(ZeroDivisionError):
        async with open_sqlite(path):
            raise ZeroDivisionError

    assert json.loads(lock_path(path).read_text())["pid"] == os.getpid()


async def test_a_deleted_lock_file_is_locked_again_by_its_owner(path: Path) -> None:
    async with supervisor.open(path) as sup:
        lock_path(path).unlink()
        await sup.create("echo")

        with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
            async with supervisor.open(path):
                pass


async def test_only_the_second_owner_writes_after_the_lock_file_is_deleted(path: Path) -> None:
    async with supervisor.open(path) as sup:
        session = await sup.create("echo")
        lock_path(path).unlink()
        async with supervisor.open(path) as second:
            with pytest.raises(StoreDegraded, match="its lock is gone") as refused:
                await session.send("from the first")
            assert "stop one of the two" in refused.value.hint
            await second.session(session.id).prompt("from the second")
            said = [message.text for message in await second.session(session.id).transcript()]

    assert said == ["from the second", "from the second"]


async def test_a_symbolic_name_leads_to_the_same_lock(path: Path, tmp_path: Path) -> None:
    async with supervisor.open(path) as sup:
        (tmp_path / "other.db").symlink_to(path)

        with pytest.raises(StoreLocked):
            await use(tmp_path / "other.db")

        await (await sup.create("echo")).prompt("still here")


async def test_a_hard_link_cannot_harm_the_first_owner(path: Path, tmp_path: Path) -> None:
    async with supervisor.open(path) as sup:
        os.link(path, tmp_path / "other.db")

        with pytest.raises(SupervisorError):
            await use(tmp_path / "other.db")

        await (await sup.create("echo")).prompt("still here")
        assert len((await sup.list()).items) == 1


async def test_a_path_through_another_directory_leads_to_the_same_lock(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "way").symlink_to(tmp_path)
    async with supervisor.open(tmp_path / "way" / "state.db"):
        with pytest.raises(StoreLocked):
            await use(path)


async def test_a_link_to_a_file_opens_that_file(path: Path, tmp_path: Path) -> None:
    made = await use(path)
    (tmp_path / "link.db").symlink_to(path)

    async with supervisor.open(tmp_path / "link.db") as sup:
        assert await sup.exists(made)
        await sup.create("echo")

    assert (tmp_path / "link.db").is_symlink()
    async with supervisor.open(path) as sup:
        assert len((await sup.list()).items) == 2


HOLDER = """
import sys, trio, supervisor

async def main():
    async with supervisor.open(sys.argv[1]):
        print("open", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)

trio.run(main)
"""


@pytest.fixture
async def holder(path: Path) -> AsyncIterator[subprocess.Popen[str]]:
    """Start another process that has the file open until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:  # noqa: ASYNC220
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


async def test_another_process_is_refused_with_the_pid_of_the_owner(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(StoreLocked, match=f"process {holder.pid}, since "):
        await use(path)

    holder.kill()
    holder.wait()
    await use(path)


@pytest.mark.parametrize(
    "signature", [b"", b"{", b"[]", b'{"pid": 1, "since": 1e30}', b'{"pid": {}}']
)
async def test_a_held_lock_with_garbage_is_still_a_lock(
    path: Path, holder: subprocess.Popen[str], signature: bytes
) -> None:
    lock = path.with_name("state.db.lock")
    lock.write_bytes(signature)

    with pytest.raises(StoreLocked) as refused:
        await use(path)

    assert holder.poll() is None
    assert refused.value.hint
