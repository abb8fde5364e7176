"""Damaged rows: the store finds them, and a repair rebuilds them from complete records."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import NotStorable, RepairRefused
from supervisor.core.fold import replay
from supervisor.core.records import Record
from supervisor.core.state import Phase, SessionState
from supervisor.store.codec import encode
from supervisor.store.examine import Problem, examine
from supervisor.store.port import RawRecord, RawRow, Write
from supervisor.store.repair import rebuild_row, repair_row, row_damage
from supervisor.store.sqlite.store import open_sqlite
from tests.support.raw_histories import as_raw, random_history
from tests.support.store_samples import ONE, TWO, creation_write, row, rows_of

NOW = 5000.0
DAMAGED = RawRow(ONE, 3, None, ONE, b"{")
SETTLED = {Phase.STOPPED, Phase.SUSPENDED, Phase.RESTARTING}
seeds = st.integers(0, 59)


def spoil(raw: list[RawRecord], number: int) -> list[RawRecord]:
    return [attrs.evolve(one, body="{") if one.seq == number else one for one in raw]


def snapshot_at(records: tuple[Record, ...], number: int) -> tuple[int, SessionState]:
    session = replay(records[:number])
    assert session is not None
    return number, session


# In the file -----------------------------------------------------------------------------


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Create a file with the sessions ONE and TWO; the row of ONE is damaged."""
    path = tmp_path / "state.db"
    async with open_sqlite(path) as store:
        await store.commit([creation_write(ONE), creation_write(TWO)])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE sessions SET row = '{' WHERE id = ?", (ONE,))
    return path


async def test_a_session_with_a_damaged_row_is_listed(path: Path) -> None:
    async with open_sqlite(path) as store:
        assert await store.damaged() == [ONE]
        assert await store.damaged(known_readable={TWO}) == [ONE]
        with pytest.raises(NotStorable, match=ONE):
            await store.read(ONE)
        raw = await store.raw_row(ONE)
        assert raw is not None
        assert raw.row == b"{"


async def test_a_damaged_row_is_logged_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_sqlite(path) as store:
        await store.startup_rows()
        for _ in range(3):
            assert [one.row.id for one in await rows_of(store)] == [TWO]

    assert len(caplog.records) == 1


async def test_a_session_with_a_damaged_row_is_counted_at_startup(path: Path) -> None:
    async with open_sqlite(path) as store:
        resting, others = await store.startup_rows()

        assert [(one.id, one.is_stopped) for one in resting] == [(ONE, False)]
        assert [one.row.id for one in others] == [TWO]


async def test_a_damaged_row_can_be_overwritten(path: Path) -> None:
    async with open_sqlite(path) as store:
        with pytest.raises(NotStorable):
            await store.claim([ONE])  # so a repair must not claim

        assert await store.commit([Write(ONE, 0, (), row(title="anew"))]) == [None]

        stored = await store.read(ONE)
        assert stored is not None
        assert stored.row.title == "anew"
        assert await store.damaged() == []


# Rebuilding ------------------------------------------------------------------------------


def test_the_damage_of_a_row_is_described() -> None:
    whole = attrs.evolve(DAMAGED, row=encode(row(ONE)))

    assert row_damage(whole) is None
    assert row_damage(attrs.evolve(whole, session_id=TWO)) == "it is the row of another session"
    for lies_there in (b"", b"{", b"\xff", b"null", b"[]", b'{"id": 1}', b'{"x": "\xc3\xa9"}'):
        why = row_damage(attrs.evolve(DAMAGED, row=lies_there))
        assert why
        assert why.isascii()


@given(seeds)
def test_complete_records_rebuild_the_row(seed: int) -> None:
    records, session = random_history(seed)

    assert rebuild_row(DAMAGED, as_raw(records), None) == session


@given(seeds, st.data())
def test_a_damaged_record_prevents_a_rebuild(seed: int, data: st.DataObject) -> None:
    records, _ = random_history(seed)
    spoilt = data.draw(st.integers(1, len(records)))

    assert rebuild_row(DAMAGED, spoil(as_raw(records), spoilt), None) is None


@given(seeds, st.data())
def test_a_snapshot_replaces_only_the_records_before_it(seed: int, data: st.DataObject) -> None:
    records, session = random_history(seed)
    spoilt = data.draw(st.integers(1, len(records)))
    kept_at = data.draw(st.integers(1, len(records)))

    made = rebuild_row(DAMAGED, spoil(as_raw(records), spoilt), snapshot_at(records, kept_at))

    assert made == (session if spoilt <= kept_at else None)


@given(seeds, st.data())
def test_a_gap_after_a_snapshot_prevents_a_rebuild(seed: int, data: st.DataObject) -> None:
    records, session = random_history(seed)
    first = data.draw(st.integers(1, len(records)))
    last = data.draw(st.integers(first, len(records)))
    kept_at = data.draw(st.integers(1, len(records)))
    raw = [one for one in as_raw(records) if not first <= one.seq <= last]

    made = rebuild_row(DAMAGED, raw, snapshot_at(records, kept_at))

    if last == len(records):  # only a snapshot shows that there were more records
        assert made == (replay(records[: first - 1]) if kept_at < first else None)
    else:
        assert made == (session if last <= kept_at else None)


@given(seeds)
def test_a_rebuilt_session_is_recovered(seed: int) -> None:
    records, session = random_history(seed)

    mended = repair_row(
        DAMAGED, as_raw(records), None, at=NOW, last_seq=len(records), dry_run=False
    )

    assert mended.row is not None
    assert mended.report.row_made
    assert mended.row.phase in SETTLED
    whole = [*records, *mended.report.appended]
    assert replay(whole) == mended.row
    assert examine(as_raw(whole), mended.row) == []
    if session.is_inactive:
        assert mended.row.phase == session.phase


def test_the_row_is_last_in_the_report() -> None:
    records, _ = next(
        history for history in map(random_history, range(100)) if history[1].is_inactive
    )

    report = repair_row(
        DAMAGED, spoil(as_raw(records), 2), None, at=NOW, last_seq=len(records)
    ).report

    assert isinstance(report.problems[-1], Problem)
    assert [(one.code, one.severity, one.seq) for one in report.problems] == [
        ("bad_json", "error", 2),
        ("bad_json", "error", None),
    ]
    assert (report.row_made, report.appended) == (False, ())


def test_force_rebuilds_no_row_from_missing_or_damaged_records() -> None:
    for raw in ([], spoil(as_raw(random_history(0)[0]), 1)):
        with pytest.raises(RepairRefused, match="or rebuilt from its records"):
            repair_row(DAMAGED, raw, None, at=NOW, last_seq=0, dry_run=False, force=True)
