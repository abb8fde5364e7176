"""A row that cannot be read: found by the store, and made anew from what is whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import NotStorable, RepairRefused
from supervisor.core.records import Record, replay
from supervisor.core.session import Phase, Session
from supervisor.store.codec import encode
from supervisor.store.port import RawRecord, RawRow, Write
from supervisor.store.repair import Problem, damage_of, examine, mend_row
from supervisor.store.repair.rows import made_anew
from supervisor.store.sqlite.store import open_sqlite
from tests.store.cast import ONE, TWO, birth, row, rows_of
from tests.store.test_repair import lying, past

NOW = 5000.0
DAMAGED = RawRow(ONE, 3, None, ONE, b"{")
SETTLED = {Phase.STOPPED, Phase.SUSPENDED, Phase.RESTARTING}
seeds = st.integers(0, 59)


def spoil(raw: list[RawRecord], number: int) -> list[RawRecord]:
    return [attrs.evolve(one, body="{") if one.seq == number else one for one in raw]


def snapshot_at(records: tuple[Record, ...], number: int) -> tuple[int, Session]:
    session = replay(records[:number])
    assert session is not None
    return number, session


# In the file -----------------------------------------------------------------------------


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A file with the sessions ONE and TWO, of which ONE cannot be read."""
    path = tmp_path / "state.db"
    async with open_sqlite(path) as store:
        await store.commit([birth(ONE), birth(TWO)])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE sessions SET row = '{' WHERE id = ?", (ONE,))
    return path


async def test_who_cannot_be_read_is_found(path: Path) -> None:
    async with open_sqlite(path) as store:
        assert await store.damaged() == [ONE]
        assert await store.damaged(besides={TWO}) == [ONE]
        with pytest.raises(NotStorable, match=ONE):
            await store.read(ONE)
        raw = await store.raw_row(ONE)
        assert raw is not None
        assert raw.row == b"{"


async def test_the_log_says_it_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_sqlite(path) as store:
        await store.at_start()
        for _ in range(3):
            assert [one.row.id for one in await rows_of(store)] == [TWO]

    assert len(caplog.records) == 1


async def test_who_cannot_be_read_is_counted_at_a_start(path: Path) -> None:
    async with open_sqlite(path) as store:
        resting, others = await store.at_start()

        assert [(one.id, one.is_stopped) for one in resting] == [(ONE, False)]
        assert [one.row.id for one in others] == [TWO]


async def test_a_row_is_written_over_one_that_cannot_be_read(path: Path) -> None:
    async with open_sqlite(path) as store:
        with pytest.raises(NotStorable):
            await store.claim([ONE])  # so nobody else can write, either

        assert await store.commit([Write(ONE, 0, (), row(title="anew"))]) == [None]

        stored = await store.read(ONE)
        assert stored is not None
        assert stored.row.title == "anew"
        assert await store.damaged() == []


# Made anew -------------------------------------------------------------------------------


def test_what_is_wrong_with_a_row_is_said() -> None:
    whole = attrs.evolve(DAMAGED, row=encode(row(ONE)))

    assert damage_of(whole) is None
    assert damage_of(attrs.evolve(whole, session_id=TWO)) == "this is the row of another session"
    for lies_there in (b"", b"{", b"\xff", b"null", b"[]", b'{"id": 1}', b'{"x": "\xc3\xa9"}'):
        why = damage_of(attrs.evolve(DAMAGED, row=lies_there))
        assert why
        assert why.isascii()


@given(seeds)
def test_whole_records_give_the_row_that_was_there(seed: int) -> None:
    records, session = past(seed)

    assert made_anew(DAMAGED, lying(records), None) == session


@given(seeds, st.data())
def test_a_damaged_record_gives_none(seed: int, data: st.DataObject) -> None:
    records, _ = past(seed)
    spoilt = data.draw(st.integers(1, len(records)))

    assert made_anew(DAMAGED, spoil(lying(records), spoilt), None) is None


@given(seeds, st.data())
def test_a_snapshot_stands_for_what_was_before_it_and_for_nothing_else(
    seed: int, data: st.DataObject
) -> None:
    records, session = past(seed)
    spoilt = data.draw(st.integers(1, len(records)))
    kept_at = data.draw(st.integers(1, len(records)))

    made = made_anew(DAMAGED, spoil(lying(records), spoilt), snapshot_at(records, kept_at))

    assert made == (session if spoilt <= kept_at else None)


@given(seeds, st.data())
def test_a_gap_that_reaches_behind_a_snapshot_gives_none(seed: int, data: st.DataObject) -> None:
    records, session = past(seed)
    first = data.draw(st.integers(1, len(records)))
    last = data.draw(st.integers(first, len(records)))
    kept_at = data.draw(st.integers(1, len(records)))
    raw = [one for one in lying(records) if not first <= one.seq <= last]

    made = made_anew(DAMAGED, raw, snapshot_at(records, kept_at))

    if last == len(records):  # only a snapshot knows that there were more
        assert made == (replay(records[: first - 1]) if kept_at < first else None)
    else:
        assert made == (session if last <= kept_at else None)


@given(seeds)
def test_who_is_made_anew_has_its_fate(seed: int) -> None:
    records, session = past(seed)

    mended = mend_row(DAMAGED, lying(records), None, at=NOW, last_seq=len(records), dry_run=False)

    assert mended.row is not None
    assert mended.report.row_made
    assert mended.row.phase in SETTLED
    whole = [*records, *mended.report.appended]
    assert replay(whole) == mended.row
    assert examine(lying(whole), mended.row) == []
    if session.is_at_rest:
        assert mended.row.phase == session.phase


def test_the_row_comes_last_in_the_report() -> None:
    records, _ = past(0)

    report = mend_row(DAMAGED, spoil(lying(records), 2), None, at=NOW, last_seq=len(records)).report

    assert isinstance(report.problems[-1], Problem)
    assert [(one.code, one.severity, one.seq) for one in report.problems] == [
        ("bad_json", "error", 2),
        ("bad_json", "error", None),
    ]
    assert (report.row_made, report.appended) == (False, ())


def test_force_makes_nothing_of_nothing() -> None:
    for raw in ([], spoil(lying(past(0)[0]), 1)):
        with pytest.raises(RepairRefused, match="records do not give it"):
            mend_row(DAMAGED, raw, None, at=NOW, last_seq=0, dry_run=False, force=True)
