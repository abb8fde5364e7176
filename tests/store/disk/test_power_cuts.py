"""After a power cut a store is as it was after its last acknowledged operation.

Or after the operation that was running; never with half of one, and never in another state.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.core.errors import StoreDegraded
from supervisor.store.sqlite import files
from supervisor.store.sqlite import store as sqlite_store
from supervisor.store.sqlite.store import open_sqlite
from tests.support.disk.disk_events import SyncFailed
from tests.support.disk.faults import failing_disk
from tests.support.disk.images import Image
from tests.support.disk.recording import RecordedDisk, recorded_disk
from tests.support.disk.shim import swift_disk
from tests.support.disk.store_operations import (
    Operation,
    StoreView,
    do,
    random_operations,
    view_of,
    views_of,
)

SNAPSHOT_EVERY = 5


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Return a folder for the images."""
    folder = tmp_path / "images"
    folder.mkdir()
    return folder


async def record_operations(operations: Iterable[Operation], path: Path) -> RecordedDisk:
    """Run the operations; note each when it is acknowledged."""
    with recorded_disk() as disk:
        async with open_sqlite(path, snapshot_every=SNAPSHOT_EVERY) as store:
            for operation in operations:
                await do(store, operation)
                disk.note(operation)
    return disk


async def problem_of(image: Image, folder: Path, views: list[StoreView]) -> str | None:
    """Return what is wrong with the store that opens on this image."""
    path = image.materialise(folder)
    try:
        async with open_sqlite(path, snapshot_every=SNAPSHOT_EVERY) as store:
            seen = await view_of(store)
    except StoreDegraded as error:
        return f"{image}: {error}"
    with closing(sqlite3.connect(path)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return f"{image}: it is damaged"
    promised = len(image.notes)
    return None if seen in views[promised : promised + 2] else f"{image}: something is lost"


async def complaints(
    disk: RecordedDisk, folder: Path, views: list[StoreView], count: int
) -> list[str]:
    with swift_disk():
        found = [
            await problem_of(image, folder, views) for image in disk.images(seed=1, count=count)
        ]
    return [one for one in found if one is not None]


async def test_a_power_cut_loses_no_acknowledged_write(tmp_path: Path, images: Path) -> None:
    operations = random_operations(seed=1, length=40)
    views = await views_of(operations, snapshot_every=SNAPSHOT_EVERY)

    disk = await record_operations(operations, tmp_path / "state.db")

    assert await complaints(disk, images, views, 60) == []


async def test_a_script_with_many_power_cuts_ends_like_one_without(images: Path) -> None:
    operations = random_operations(seed=3, length=60)
    views = await views_of(operations, snapshot_every=SNAPSHOT_EVERY)
    chance = random.Random(3)
    promised = 0
    for number in range(15):
        with recorded_disk(seed=number) as disk:
            async with open_sqlite(images / "state.db", snapshot_every=SNAPSHOT_EVERY) as store:
                done = views.index(await view_of(store))
                assert promised <= done <= promised + 1
                for operation in operations[done : done + 5]:
                    await do(store, operation)
                    disk.note(operation)
        image = chance.choice(list(disk.images(seed=number, count=10)))
        image.materialise(images)
        promised = done + len(image.notes)
    assert promised > 10


async def test_a_store_with_fewer_syncs_is_detected(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_carelessly(path: Path) -> sqlite3.Connection:
        connection = files.open_writer(path)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    operations = random_operations(seed=1, length=40)
    views = await views_of(operations, snapshot_every=SNAPSHOT_EVERY)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "open_writer", open_carelessly)
        disk = await record_operations(operations, tmp_path / "state.db")

    assert len(await complaints(disk, images, views, 40)) > 3


async def test_a_power_cut_after_a_failed_sync_loses_no_acknowledged_write(
    tmp_path: Path, images: Path
) -> None:
    operations = random_operations(seed=2, length=20)
    views = await views_of(operations, snapshot_every=SNAPSHOT_EVERY)

    with failing_disk() as failing, recorded_disk() as disk:
        async with open_sqlite(tmp_path / "state.db", snapshot_every=SNAPSHOT_EVERY) as store:
            for operation in operations:
                failing.fail("sync", with_="sync_error", on="wal", how_long="once")
                with pytest.raises(StoreDegraded):
                    await do(store, operation)
                await do(store, operation)
                disk.note(operation)

    assert any(isinstance(it, SyncFailed) for it in disk.operations)
    assert await complaints(disk, images, views, 60) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
async def test_a_thousand_power_cuts_lose_no_acknowledged_write(
    tmp_path: Path, images: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("covered", "1000 power cuts")
    operations = random_operations(seed=seed, length=100)
    views = await views_of(operations, snapshot_every=SNAPSHOT_EVERY)

    disk = await record_operations(operations, tmp_path / "state.db")

    assert await complaints(disk, images, views, 1_000) == []
