"""Whenever the power goes, a store comes back as it was after the last deed that it acknowledged.

Or after the one that it was doing; never with half of one, and never with anything else.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.core.errors import StoreDegraded
from supervisor.store.sqlite import files
from supervisor.store.sqlite import store as sqlite_store
from supervisor.store.sqlite.store import open_sqlite

from .faults import failing_disk
from .images import Image
from .lives import Deed, Sight, do, life_of, seen_of, sights_of
from .operations import SyncFailed
from .recording import RecordedDisk, recorded_disk
from .shim import swift_disk

SNAPSHOT_EVERY = 5


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder for them."""
    folder = tmp_path / "images"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CHECKPOINT_PAGES", 30)


async def recorded_life(life: Iterable[Deed], path: Path) -> RecordedDisk:
    """Each deed is noted when it is acknowledged."""
    with recorded_disk() as disk:
        async with open_sqlite(path, snapshot_every=SNAPSHOT_EVERY) as store:
            for deed in life:
                await do(store, deed)
                disk.note(deed)
    return disk


async def complaint(image: Image, folder: Path, sights: list[Sight]) -> str | None:
    """What is wrong with the store that opens on this image."""
    path = image.materialise(folder)
    try:
        async with open_sqlite(path, snapshot_every=SNAPSHOT_EVERY) as store:
            seen = await seen_of(store)
    except StoreDegraded as error:
        return f"{image}: {error}"
    with closing(sqlite3.connect(path)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return f"{image}: it is damaged"
    promised = len(image.notes)
    return None if seen in sights[promised : promised + 2] else f"{image}: something is lost"


async def complaints(
    disk: RecordedDisk, folder: Path, sights: list[Sight], count: int
) -> list[str]:
    with swift_disk():
        found = [
            await complaint(image, folder, sights) for image in disk.images(seed=1, count=count)
        ]
    return [one for one in found if one is not None]


async def test_a_power_cut_loses_nothing_that_was_acknowledged(
    tmp_path: Path, images: Path
) -> None:
    life = life_of(seed=1, length=40)
    sights = await sights_of(life, snapshot_every=SNAPSHOT_EVERY)

    disk = await recorded_life(life, tmp_path / "state.db")

    assert await complaints(disk, images, sights, 60) == []


async def test_a_life_with_many_power_cuts_is_the_life_without_them(images: Path) -> None:
    life = life_of(seed=3, length=60)
    sights = await sights_of(life, snapshot_every=SNAPSHOT_EVERY)
    chance = random.Random(3)
    promised = 0
    for number in range(15):
        with recorded_disk(seed=number) as disk:
            async with open_sqlite(images / "state.db", snapshot_every=SNAPSHOT_EVERY) as store:
                done = sights.index(await seen_of(store))
                assert promised <= done <= promised + 1
                for deed in life[done : done + 5]:
                    await do(store, deed)
                    disk.note(deed)
        image = chance.choice(list(disk.images(seed=number, count=10)))
        image.materialise(images)
        promised = done + len(image.notes)
    assert promised > 10


async def test_a_store_that_syncs_less_is_found_out(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_carelessly(path: Path) -> sqlite3.Connection:
        connection = files.open_writer(path)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    life = life_of(seed=1, length=40)
    sights = await sights_of(life, snapshot_every=SNAPSHOT_EVERY)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "open_writer", open_carelessly)
        disk = await recorded_life(life, tmp_path / "state.db")

    assert len(await complaints(disk, images, sights, 40)) > 3


async def test_a_power_cut_after_a_failed_sync_loses_nothing_that_was_acknowledged(
    tmp_path: Path, images: Path
) -> None:
    life = life_of(seed=2, length=20)
    sights = await sights_of(life, snapshot_every=SNAPSHOT_EVERY)

    with failing_disk() as failing, recorded_disk() as disk:
        async with open_sqlite(tmp_path / "state.db", snapshot_every=SNAPSHOT_EVERY) as store:
            for deed in life:
                failing.fail("sync", with_="sync_error", on="wal", how_long="once")
                with pytest.raises(StoreDegraded):
                    await do(store, deed)
                await do(store, deed)
                disk.note(deed)

    assert any(isinstance(it, SyncFailed) for it in disk.operations)
    assert await complaints(disk, images, sights, 60) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
async def test_a_thousand_power_cuts_lose_nothing_that_was_acknowledged(
    tmp_path: Path, images: Path, seed: int
) -> None:
    life = life_of(seed=seed, length=100)
    sights = await sights_of(life, snapshot_every=SNAPSHOT_EVERY)

    disk = await recorded_life(life, tmp_path / "state.db")

    assert await complaints(disk, images, sights, 1_000) == []
