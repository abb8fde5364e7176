"""A disk without room when a store is opened: a typed error, and a later attempt succeeds."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

import supervisor
from supervisor import ConfigError, StoreDegraded
from supervisor.store.new_file import UNFINISHED
from supervisor.store.sqlite.lock import lock_path
from supervisor.store.sqlite.store import open_sqlite
from tests.support.disk.faults import FailingDisk, failing_disk

ROOT = Path(__file__).parents[2]
INCREMENTAL = 2
HINT = "free some space, and try again"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    with failing_disk() as failing:
        yield failing


async def open_and_close(path: Path) -> None:
    async with open_sqlite(path):
        pass


async def refusal_of(path: Path) -> StoreDegraded:
    with pytest.raises(StoreDegraded) as refused:
        await open_and_close(path)
    return refused.value


@pytest.mark.parametrize("room_bytes", [0, 1, 511, 4_096, 5_000, 8_192, 12_288, 30_000])
async def test_a_new_store_is_created_after_any_lack_of_room(
    disk: FailingDisk, path: Path, room_bytes: int
) -> None:
    for _ in range(2):  # an attempt does not prevent the next
        disk.fill(room_bytes=room_bytes)
        refused = await refusal_of(path)
        assert refused.is_disk_full
        assert (refused.args[0], refused.hint) == (
            "the store state.db cannot be used: the disk is full",
            HINT,
        )
    disk.heal()

    async with supervisor.open(path) as sup:
        assert (await (await sup.create("echo")).prompt("hello")).text == "hello"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (INCREMENTAL,)


OPEN = """
    import resource, sys
    import trio
    import supervisor

    async def main():
        async with supervisor.open(sys.argv[1]):
            pass
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, hard))
        try:
            async with supervisor.open(sys.argv[1]):
                pass
        except supervisor.StoreDegraded as error:
            print(error.is_disk_full, error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        async with supervisor.open(sys.argv[1]) as sup:
            print(sup.introspect().store_state().degraded)

    trio.run(main)
"""


def test_no_room_for_the_index_of_the_wal_is_a_full_disk(path: Path) -> None:
    """SQLite itself creates the index, in a process whose files cannot be larger than 16 KiB."""
    done = subprocess.run(
        [sys.executable, "-c", dedent(OPEN), str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    problem = f"the store state.db cannot be used: the disk is full (hint: {HINT})"
    assert done.stdout.splitlines() == [f"True {problem}", "False"], done.stderr[-3000:]


@pytest.mark.parametrize(
    ("found", "is_full"),
    [
        (SimpleNamespace(f_bavail=0, f_files=9, f_favail=9), True),
        (SimpleNamespace(f_bavail=9, f_files=9, f_favail=0), True),
        (SimpleNamespace(f_bavail=9, f_files=0, f_favail=0), False),
        (SimpleNamespace(f_bavail=9, f_files=9, f_favail=9), False),
    ],
)
async def test_a_wal_that_cannot_be_created_is_explained_by_the_file_system(
    disk: FailingDisk,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: SimpleNamespace,
    *,
    is_full: bool,
) -> None:
    await open_and_close(path)
    disk.fail("open", with_="open_error", on="wal")
    monkeypatch.setattr(os, "statvfs", lambda _: found)

    refused = await refusal_of(path)

    assert refused.is_disk_full is is_full
    assert ("the disk is full" in str(refused)) is is_full


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("ending", ["", ".lock"])
async def test_a_file_that_cannot_be_created_for_lack_of_room_is_a_full_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, ending: str
) -> None:
    fail_to_create(f"{path}{ending}", number, monkeypatch)

    refused = await refusal_of(path)

    assert refused.is_disk_full
    assert refused.hint == HINT


async def test_a_file_that_cannot_be_created_with_room_is_a_wrong_argument(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_create(str(lock_path(path)), errno.EACCES, monkeypatch)

    with pytest.raises(ConfigError, match="cannot be locked"):
        await open_and_close(path)


def fail_to_create(path: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail to create the file, under its own name or the name that it has before."""
    create = os.open

    def fail(name: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
        whole = os.fspath(name)
        is_draft = whole.startswith(f"{path}.") and whole.endswith(UNFINISHED)
        if (whole == path or is_draft) and flags & os.O_CREAT:
            raise OSError(number, os.strerror(number))
        return create(name, flags, mode)

    monkeypatch.setattr(os, "open", fail)


async def test_opening_an_existing_store_writes_nothing(disk: FailingDisk, path: Path) -> None:
    await open_and_close(path)
    disk.fail("write", with_="full")

    await open_and_close(path)

    assert disk.failed == []
