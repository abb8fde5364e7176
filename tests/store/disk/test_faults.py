"""A store on a failing disk says so, loses nothing, and goes on by itself when the disk is well."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from supervisor.core.errors import StoreDegraded
from supervisor.store.port import Store
from supervisor.store.sqlite import files
from supervisor.store.sqlite.store import open_sqlite

from .calls import FileKind
from .faults import Deed as Call
from .faults import FailingDisk, Failure, failing_disk
from .lives import Deed, do, last_sight_of, life_of, seen_of, sights_of

SNAPSHOT_EVERY = 5

Fault: TypeAlias = tuple[Call, Failure, FileKind]

# In the way of a commit.
IN_THE_WAY: tuple[Fault, ...] = (
    ("write", "full", "wal"),
    ("write", "write_error", "wal"),
    ("write", "read_only", "wal"),
    ("sync", "sync_error", "wal"),
)
# Only in the way of a checkpoint, which is nobody's commit and can be made up for.
ASIDE: tuple[Fault, ...] = (
    ("write", "full", "db"),
    ("write", "write_error", "db"),
    ("sync", "sync_error", "db"),
)


@pytest.fixture(autouse=True)
def _many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CHECKPOINT_PAGES", 30)


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


async def lead(store: Store, life: Sequence[Deed]) -> int:
    """Do it all, each deed once more if the disk was in the way; gives how often it was."""
    troubles = 0
    for deed in life:
        try:
            await do(store, deed)
        except StoreDegraded:
            troubles += 1
            await do(store, deed)
    return troubles


@pytest.mark.parametrize("fault", IN_THE_WAY, ids="-".join)
async def test_a_failing_disk_is_said_reads_go_on_and_nothing_is_half_there(
    path: Path, disk: FailingDisk, fault: Fault
) -> None:
    *past, next_deed = life_of(seed=3, length=8)
    async with opened(path) as store:
        await lead(store, past)
        before = await seen_of(store)
        begin_to_fail(disk, fault)

        for _ in range(2):
            with pytest.raises(StoreDegraded, match=r"state\.db .* \(hint: "):
                await do(store, next_deed)
            assert await seen_of(store) == before
        disk.heal()


@pytest.mark.parametrize("fault", IN_THE_WAY, ids="-".join)
async def test_what_a_failing_disk_did_not_take_it_takes_when_it_is_well(
    path: Path, disk: FailingDisk, fault: Fault
) -> None:
    life = life_of(seed=3, length=12)
    async with opened(path) as store:
        for deed in life:
            begin_to_fail(disk, fault)
            with pytest.raises(StoreDegraded):
                await do(store, deed)
            disk.heal()
            await do(store, deed)

        assert await seen_of(store) == await last_sight_of(life, snapshot_every=SNAPSHOT_EVERY)


@pytest.mark.parametrize("fault", ASIDE, ids="-".join)
async def test_a_checkpoint_that_fails_is_in_nobodys_way(
    path: Path, disk: FailingDisk, fault: Fault
) -> None:
    life = life_of(seed=4, length=30)
    last = await last_sight_of(life, snapshot_every=SNAPSHOT_EVERY)

    async with opened(path) as store:
        begin_to_fail(disk, fault)
        assert await lead(store, life) == 0
        assert disk.failed

    # Left while the disk was failing still.
    disk.heal()
    async with opened(path) as again:
        assert await seen_of(again) == last


@pytest.mark.parametrize("fault", [*IN_THE_WAY, *ASIDE], ids="-".join)
@pytest.mark.parametrize("after", [0, 1, 5])
async def test_whichever_call_fails_the_life_goes_on_as_if_nothing_had_been(
    path: Path, fault: Fault, after: int
) -> None:
    assert await see_one_failure_through(path, fault, after) == 1


@pytest.mark.soak
@pytest.mark.parametrize("fault", [*IN_THE_WAY, *ASIDE], ids="-".join)
async def test_there_is_no_call_whose_failure_the_life_does_not_survive(
    tmp_path: Path, fault: Fault
) -> None:
    # Each call of a whole life in its turn, until there is none left that could fail.
    after = 0
    while await see_one_failure_through(tmp_path / f"{after}.db", fault, after):
        after += 1

    assert after > 5


async def see_one_failure_through(path: Path, fault: Fault, after: int) -> int:
    """A whole life in which that call fails once; gives how many did."""
    call, failure, kind = fault
    life = life_of(seed=4, length=30)
    last = await last_sight_of(life, snapshot_every=SNAPSHOT_EVERY)
    with failing_disk() as disk:
        async with opened(path) as store:
            disk.fail(call, with_=failure, on=kind, after=after, how_long="once")
            await lead(store, life)
            assert await seen_of(store) == last
        async with opened(path) as again:
            disk.heal()
            assert await seen_of(again) == last
    return len(disk.failed)


async def test_a_full_disk_with_some_room_takes_what_fits_and_no_half_of_the_rest(
    path: Path, disk: FailingDisk
) -> None:
    life = life_of(seed=5, length=40)
    sights = await sights_of(life, snapshot_every=SNAPSHOT_EVERY)
    done = 0
    async with opened(path) as store:
        disk.fill(room_bytes=200_000)
        while not disk.failed:
            with contextlib.suppress(StoreDegraded):
                await do(store, life[done])
                done += 1
        assert 0 < done < len(life)
        assert await seen_of(store) == sights[done]

        disk.heal()
        await lead(store, life[done:])
        assert await seen_of(store) == sights[-1]


FIRST_CALLS: tuple[Fault, ...] = (
    *IN_THE_WAY,
    *ASIDE,
    ("open", "open_error", "db"),
    ("open", "open_error", "wal"),
    ("open", "open_error", "journal"),
    ("write", "full", "journal"),
    ("delete", "delete_error", "journal"),
)


@pytest.mark.parametrize("fault", FIRST_CALLS, ids="-".join)
async def test_a_store_that_cannot_be_made_says_so_and_can_be_made_later(
    path: Path, disk: FailingDisk, fault: Fault
) -> None:
    begin_to_fail(disk, fault)
    with pytest.raises(StoreDegraded, match="hint"):
        async with opened(path):
            pytest.fail("it was opened")

    disk.heal()
    async with opened(path) as store:
        assert await lead(store, life_of(seed=6, length=3)) == 0
