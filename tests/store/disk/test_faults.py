"""A store on a failing disk: it reports the fault, loses nothing, and recovers with the disk."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from supervisor.core.errors import StoreDegraded
from supervisor.store.port import Store
from supervisor.store.sqlite.store import open_sqlite
from tests.support.disk.calls import FileKind
from tests.support.disk.faults import DiskCall as Call
from tests.support.disk.faults import FailingDisk, Failure, failing_disk
from tests.support.disk.store_operations import (
    Operation,
    do,
    last_view_of,
    random_operations,
    view_of,
    views_of,
)

SNAPSHOT_EVERY = 5

Fault: TypeAlias = tuple[Call, Failure, FileKind]

# Calls that a commit needs.
COMMIT_FAULTS: tuple[Fault, ...] = (
    ("write", "full", "wal"),
    ("write", "write_error", "wal"),
    ("write", "read_only", "wal"),
    ("sync", "sync_error", "wal"),
)
# Calls that only a checkpoint needs, which can be repeated later.
CHECKPOINT_FAULTS: tuple[Fault, ...] = (
    ("write", "full", "db"),
    ("write", "write_error", "db"),
    ("sync", "sync_error", "db"),
)


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    with failing_disk() as failing:
        yield failing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Store]:
    async with open_sqlite(path, snapshot_every=SNAPSHOT_EVERY) as store:
        yield store


def begin_to_fail(disk: FailingDisk, fault: Fault) -> None:
    call, failure, kind = fault
    disk.fail(call, with_=failure, on=kind)


async def run_operations(store: Store, operations: Sequence[Operation]) -> int:
    """Run all operations, each once more if the disk failed; return the number of failures."""
    troubles = 0
    for operation in operations:
        try:
            await do(store, operation)
        except StoreDegraded:
            troubles += 1
            await do(store, operation)
    return troubles


@pytest.mark.parametrize("fault", COMMIT_FAULTS, ids="-".join)
async def test_a_failing_disk_is_reported_and_reads_see_whole_commits(
    path: Path, disk: FailingDisk, fault: Fault
) -> None:
    *past, next_operation = random_operations(seed=3, length=8)
    async with opened(path) as store:
        await run_operations(store, past)
        before = await view_of(store)
        begin_to_fail(disk, fault)

        for _ in range(2):
            with pytest.raises(StoreDegraded, match=r"state\.db .* \(hint: "):
                await do(store, next_operation)
            assert await view_of(store) == before
        disk.heal()


@pytest.mark.parametrize("fault", COMMIT_FAULTS, ids="-".join)
async def test_a_recovered_disk_accepts_the_writes_that_failed(
    path: Path, disk: FailingDisk, fault: Fault
) -> None:
    operations = random_operations(seed=3, length=12)
    async with opened(path) as store:
        for operation in operations:
            begin_to_fail(disk, fault)
            with pytest.raises(StoreDegraded):
                await do(store, operation)
            disk.heal()
            await do(store, operation)

        assert await view_of(store) == await last_view_of(operations, snapshot_every=SNAPSHOT_EVERY)


@pytest.mark.parametrize("fault", CHECKPOINT_FAULTS, ids="-".join)
async def test_a_failed_checkpoint_blocks_no_write(
    path: Path, disk: FailingDisk, fault: Fault
) -> None:
    operations = random_operations(seed=4, length=30)
    last = await last_view_of(operations, snapshot_every=SNAPSHOT_EVERY)

    async with opened(path) as store:
        begin_to_fail(disk, fault)
        assert await run_operations(store, operations) == 0
        assert disk.failed

    # Closed while the disk still failed.
    disk.heal()
    async with opened(path) as again:
        assert await view_of(again) == last


@pytest.mark.parametrize("fault", [*COMMIT_FAULTS, *CHECKPOINT_FAULTS], ids="-".join)
@pytest.mark.parametrize("after", [0, 1, 5])
async def test_a_script_continues_after_any_failed_call(
    path: Path, fault: Fault, after: int
) -> None:
    assert await run_with_one_failure(path, fault, after) == 1


@pytest.mark.soak
@pytest.mark.parametrize("fault", [*COMMIT_FAULTS, *CHECKPOINT_FAULTS], ids="-".join)
async def test_no_failed_call_breaks_a_script(
    tmp_path: Path, fault: Fault, record_property: Callable[[str, object], None]
) -> None:
    # Fail each call of the run in turn, until no call is left.
    after = 0
    while await run_with_one_failure(tmp_path / f"{after}.db", fault, after):
        after += 1

    assert after > 5
    record_property("covered", f"{after} failed calls of the disk")


async def run_with_one_failure(path: Path, fault: Fault, after: int) -> int:
    """Run all operations with one failure of that call; return the number of failures."""
    call, failure, kind = fault
    operations = random_operations(seed=4, length=30)
    last = await last_view_of(operations, snapshot_every=SNAPSHOT_EVERY)
    with failing_disk() as disk:
        async with opened(path) as store:
            disk.fail(call, with_=failure, on=kind, after=after, how_long="once")
            await run_operations(store, operations)
            assert await view_of(store) == last
        async with opened(path) as again:
            disk.heal()
            assert await view_of(again) == last
    return len(disk.failed)


async def test_a_nearly_full_disk_stores_whole_writes_only(path: Path, disk: FailingDisk) -> None:
    operations = random_operations(seed=5, length=40)
    views = await views_of(operations, snapshot_every=SNAPSHOT_EVERY)
    done = 0
    async with opened(path) as store:
        disk.fill(room_bytes=200_000)
        while not disk.failed:
            with contextlib.suppress(StoreDegraded):
                await do(store, operations[done])
                done += 1
        assert 0 < done < len(operations)
        assert await view_of(store) == views[done]

        disk.heal()
        await run_operations(store, operations[done:])
        assert await view_of(store) == views[-1]


FIRST_CALLS: tuple[Fault, ...] = (
    *COMMIT_FAULTS,
    *CHECKPOINT_FAULTS,
    ("open", "open_error", "db"),
    ("open", "open_error", "wal"),
    ("open", "open_error", "journal"),
    ("write", "full", "journal"),
    ("delete", "delete_error", "journal"),
)


@pytest.mark.parametrize("fault", FIRST_CALLS, ids="-".join)
async def test_a_store_that_cannot_be_created_reports_it_and_can_be_retried(
    path: Path, disk: FailingDisk, fault: Fault
) -> None:
    begin_to_fail(disk, fault)
    with pytest.raises(StoreDegraded, match="hint"):
        async with opened(path):
            pytest.fail("it was opened")

    disk.heal()
    async with opened(path) as store:
        assert await run_operations(store, random_operations(seed=6, length=3)) == 0
