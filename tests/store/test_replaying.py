"""The state of a session at any record number, from wherever one starts."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import RecordNotFound
from supervisor.core.folds import fold
from supervisor.core.records import Record, numbered, replay
from supervisor.core.session import Session
from supervisor.store.replaying import replay_from
from tests.store.cast import ONE, life

SEEDS = 20


@functools.cache
def past(seed: int) -> tuple[tuple[Record, ...], tuple[Session, ...]]:
    """The records of a life, and the session as it was after each of them."""
    facts = [fact for _, facts, _ in life(seed, 40) for fact in facts]
    records = numbered(ONE, facts, after=0)
    first = replay(records[:1])
    assert first is not None
    states = [first]
    for record in records[1:]:
        states.append(fold(states[-1], record.fact))
    return records, tuple(states)


@given(seed=st.integers(0, SEEDS), data=st.data())
def test_from_any_snapshot_it_is_what_it_is_from_the_start(seed: int, data: st.DataObject) -> None:
    records, states = past(seed)
    number = data.draw(st.integers(1, len(records)))
    start = data.draw(st.integers(1, len(records)))
    given_from = data.draw(st.integers(0, start if start <= number else 0))

    from_start = replay_from(None, records, number)
    from_snapshot = replay_from((start, states[start - 1]), records[given_from:], number)

    assert from_start == from_snapshot == states[number - 1]


@given(seed=st.integers(0, SEEDS), number=st.integers())
def test_a_number_that_does_not_exist_is_refused_from_anywhere(seed: int, number: int) -> None:
    records, states = past(seed)
    if 1 <= number <= len(records):
        number += len(records)

    for snapshot in (None, (1, states[0]), (len(records), states[-1])):
        with pytest.raises(RecordNotFound):
            replay_from(snapshot, records, number)


def test_the_refusal_says_which_numbers_there_are() -> None:
    records, _ = past(0)

    with pytest.raises(RecordNotFound, match=f"the last is {len(records)}") as beyond:
        replay_from(None, records, len(records) + 1)
    with pytest.raises(RecordNotFound, match="numbered from 1"):
        replay_from(None, records, 0)

    assert beyond.value.code == "record_not_found"
    assert beyond.value.hint


def test_a_session_without_records_has_no_state() -> None:
    with pytest.raises(RecordNotFound, match="the last is 0"):
        replay_from(None, [], 1)


def test_a_number_is_a_whole_number() -> None:
    for number in (True, 1.0, "1", None):
        with pytest.raises(RecordNotFound):
            replay_from(None, past(0)[0], number)  # type: ignore[arg-type]


def test_a_snapshot_of_that_very_number_needs_no_records() -> None:
    _, states = past(0)

    assert replay_from((3, states[2]), [], 3) == states[2]


def test_records_that_do_not_join_on_are_not_folded_over_the_gap() -> None:
    records, states = past(0)

    with pytest.raises(RecordNotFound, match="record 2 is missing"):
        replay_from((1, states[0]), records[2:], 4)
    with pytest.raises(RecordNotFound, match="record 1 is missing"):
        replay_from((5, states[4]), records[5:], 3)


def test_no_more_records_are_taken_than_are_needed() -> None:
    records, states = past(0)
    rest = iter(records)

    replay_from((2, states[1]), rest, 4)

    assert next(rest) is records[4]
