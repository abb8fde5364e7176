"""Sessions too large for one commit: brought, forked and deleted while others go on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import Session, Supervisor
from supervisor.core.fold import replay
from supervisor.store import chunks
from supervisor.store.sqlite import bulk as sql

COUNT = 60


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_RECORDS", 4)
    monkeypatch.setattr(sql, "_CHUNK_RECORDS", 4)


async def a_large_one(sup: Supervisor) -> Session:
    session = await sup.create("echo", name="large")
    for number in range(COUNT):
        await session.append("user", f"something {number}")
    return session


async def test_a_large_session_is_never_visible_in_part(tmp_path: Path) -> None:
    path, file = tmp_path / "state.db", tmp_path / "large.jsonl"
    async with supervisor.open(path) as sup, trio.open_nursery() as nursery:
        session = await a_large_one(sup)
        file.write_text(await session.export(format="jsonl"))
        other = await sup.create("echo")
        seen: set[tuple[int, int]] = set()

        async def look() -> None:
            while True:
                for info in (await sup.list(text="large")).items:
                    found = (await sup.search("something", session=info.id, limit=100)).items
                    seen.add((info.last_seq, len(found)))
                await other.append("user", "meanwhile")

        nursery.start_soon(look)
        imported = await sup.import_(file)
        forked = await session.fork()
        for one in (session, imported, forked):
            await sup.delete(one.id)
        nursery.cancel_scope.cancel()

        # Between looking at its row and searching it, it may have gone as a whole.
        assert {said for _, said in seen} <= {0, COUNT}
        assert min(last for last, _ in seen) > COUNT
        assert (await sup.search("something")).items == ()
        assert (await other.info()).last_seq > COUNT / 4

    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT DISTINCT session_id FROM records").fetchall()
        assert found == [(other.id,)]
        assert connection.execute("SELECT count(*) FROM unfinished").fetchone() == (0,)


async def test_a_global_feed_gets_imported_records_in_order(tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    async with supervisor.open(tmp_path / "state.db") as sup, trio.open_nursery() as nursery:
        session = await a_large_one(sup)
        file.write_text(await session.export(format="jsonl"))
        other = await sup.create("echo")

        async def work() -> None:
            while True:
                await other.append("user", "meanwhile")

        nursery.start_soon(work)
        async with sup.watch() as feed:
            # It has passed all that was written so far.
            watched = [await anext(feed) for _ in range((await session.info()).last_seq)]
            imported = await sup.import_(file)
            end = (imported.id, (await imported.info()).last_seq)
            while (watched[-1].session_id, watched[-1].seq) != end:
                watched.append(await anext(feed))
        nursery.cancel_scope.cancel()

    for one in (session, imported, other):
        numbers = [record.seq for record in watched if record.session_id == one.id]
        assert numbers == list(range(1, len(numbers) + 1))


async def test_a_large_fork_equals_its_folded_records(tmp_path: Path) -> None:
    async with supervisor.open(tmp_path / "state.db") as sup:
        forked = await (await a_large_one(sup)).fork()
        stored = await sup._services.store.read(forked.id)

        assert stored is not None
        assert replay(await sup._services.store.records(forked.id)) == stored.row
        assert len(await forked.transcript()) == COUNT
