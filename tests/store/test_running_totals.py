"""Totals that are kept current without reading every row."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import attrs
import pytest
import trio

from supervisor.core.ids import SessionId
from supervisor.core.recovery import plan
from supervisor.core.state import Phase
from supervisor.core.totals import Totals, figures_of, total
from supervisor.store import running_totals
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Store, Stored, Write
from supervisor.store.sqlite.store import SqliteStore, open_sqlite
from tests.support.store_samples import ONE, TWO, creation_write, next_write, random_session, row

IDS = [SessionId(f"s_{number}") for number in range(5)]


@pytest.fixture
def _noted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the check of other rows, which would correct totals that miss a write."""
    monkeypatch.setattr(running_totals, "CHECKED_ROWS", 0)


async def truth(store: Store) -> Totals:
    return total([figures_of(one.row) async for one in store.rows()])


@pytest.mark.usefixtures("_noted_only")
@pytest.mark.parametrize("seed", range(20))
async def test_totals_equal_the_rows_after_random_histories(store: Store, seed: int) -> None:
    for session_id in IDS:
        for number, (state, _, _) in enumerate(random_session(seed, 12, session_id), 1):
            answers = await store.commit([next_write(session_id, number, row=state)])
            assert answers == [None]
            assert await store.totals() == await truth(store)
    await store.delete(IDS[seed % 5])

    assert await store.totals() == await truth(store)


@pytest.mark.usefixtures("_noted_only")
async def test_rows_shown_by_recovery_are_counted_as_shown(store: Store) -> None:
    for session_id in IDS:
        *_, (state, _, _) = random_session(3, 9, session_id)
        state = attrs.evolve(state, phase=Phase.IDLE, turn=None)
        await store.commit([next_write(session_id, 1, row=state)])
    stored = await store.totals()
    found = plan([one.row async for one in store.rows()], at=9.0, steady_at=9.0)
    store.show_recovered(found.rows)

    assert await store.totals() == await truth(store)
    store.show_recovered({})
    assert await store.totals() == stored


class CountingStore(MemoryStore):
    """Counts the rows that are read for the totals."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.on_read_some: trio.CancelScope | None = None

    async def rows(self, **_: object) -> AsyncGenerator[Stored, None]:
        for one in [one async for one in super().rows()]:
            self.count += 1
            yield one

    async def read_some(self, session_ids: Sequence[SessionId]) -> list[Stored]:
        self.count += len(session_ids)
        if self.on_read_some is not None:
            self.on_read_some.cancel()
        return await super().read_some(session_ids)


async def counting_store(sessions: int) -> CountingStore:
    store = CountingStore()
    await store.commit([creation_write(SessionId(f"s_{one}")) for one in range(sessions)])
    await store.totals()
    store.count = 0
    return store


async def test_a_later_call_reads_changed_rows_and_one_page() -> None:
    store = await counting_store(sessions=1000)
    changed = [next_write(one, 2, row=row(one, turns=1)) for one in IDS]
    await store.commit([changed[0].changed(linked_write=changed[1]), changed[2]])

    totals = await store.totals()

    assert (totals.sessions, totals.turns) == (1000, 3)
    assert store.count <= running_totals.CHECKED_ROWS + 3


@pytest.mark.usefixtures("_noted_only")
async def test_a_cancelled_call_forgets_no_change() -> None:
    store = await counting_store(sessions=5)
    await store.commit([next_write(IDS[0], 2, row=row(IDS[0], turns=1))])
    with trio.CancelScope() as store.on_read_some:
        await store.totals()
    store.on_read_some = None

    assert (await store.totals()).turns == 1


@pytest.mark.usefixtures("_noted_only")
async def test_every_row_is_read_again_after_too_many_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running_totals, "MAX_NOTED", 2)
    store = await counting_store(sessions=5)
    await store.commit([next_write(one, 2, row=row(one, turns=1)) for one in IDS[:3]])

    assert (await store.totals()).turns == 3
    assert store.count == 5


async def test_a_row_that_another_program_damages_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_totals, "CHECKED_ROWS", 1)
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([creation_write(one) for one in IDS])
        await store.totals()
        with sqlite3.connect(tmp_path / "state.db") as other:
            other.execute("UPDATE sessions SET row = '{' WHERE id = ?", (IDS[3],))
        other.close()
        found = [await store.totals() for _ in IDS]

    assert (found[-1].damaged, found[-1].sessions) == ((IDS[3],), 4)


async def test_a_reader_counts_what_another_supervisor_writes(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([creation_write(ONE)])
        reader = SqliteStore(tmp_path / "state.db")
        first = await reader.totals()
        await store.commit([creation_write(TWO), Write(ONE, 0, (), row(ONE, turns=7))])

        assert (first.sessions, (await reader.totals()).turns) == (1, 7)
