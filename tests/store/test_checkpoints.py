"""The WAL is moved into the file between commits, and no acknowledgement waits for it."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from actors import Group
from actors.testing import settle
from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite import checkpoints
from supervisor.store.sqlite.checkpoints import WalLength, move_wal
from supervisor.store.sqlite.store import open_sqlite
from supervisor.store.writer import Writer
from supervisor.store.writer_messages import Commit
from tests.support.store_samples import creation_write
from tests.support.writer_callers import Callers, names

WAL_HEADER_BYTES = 32
FRAME_BYTES = 24 + 4096


class StoreWithLongWal(MemoryStore):
    """A store whose checkpoints take as long as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.is_long = False
        self.checkpoints = 0
        self.may_end = trio.Event()

    @property
    def needs_checkpoint(self) -> bool:
        return self.is_long

    async def run_checkpoint(self) -> None:
        self.is_long = False
        self.checkpoints += 1
        await self.may_end.wait()


async def test_a_commit_is_acknowledged_before_the_checkpoint(
    system: Group, nursery: trio.Nursery
) -> None:
    store = StoreWithLongWal()
    writer = await system.start(lambda: Writer(store), name="writer")
    callers = Callers(writer, nursery)
    first, second, third = names(3)
    store.is_long = True
    callers.ask(Commit(creation_write(first)))
    callers.ask(Commit(creation_write(second)))
    await settle()

    assert (callers.answers, store.checkpoints) == ([None, None], 1)
    callers.ask(Commit(creation_write(third)))
    await settle()
    assert callers.answers == [None, None]
    store.may_end.set()
    await settle()
    assert callers.answers == [None, None, None]
    assert store.checkpoints == 1


async def test_the_wal_stays_short_without_a_checkpoint_inside_a_commit(
    system: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "DUE_PAGES", 50)
    path = tmp_path / "s.db"
    async with open_sqlite(path) as store:
        writer = await system.start(lambda: Writer(store), name="writer")
        for name in names(100):
            await writer.ask(Commit(creation_write(name)), timeout_seconds=math.inf)
        frames = (path.with_name("s.db-wal").stat().st_size - WAL_HEADER_BYTES) // FRAME_BYTES

        # The commit that creates a session has some 17 pages; all of them 1,700.
        assert frames < 200 < checkpoints.MAX_PAGES
        await writer.stop()


def test_the_estimate_of_the_wal_is_reset_by_a_checkpoint() -> None:
    length = WalLength()
    while not length.needs_checkpoint:
        length.add_commit(1)
    length.reset()

    assert not length.needs_checkpoint


def test_a_checkpoint_that_fails_is_no_error(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE t (x)")
        move_wal(connection)  # locked, by the transaction
        connection.execute("COMMIT")

        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
