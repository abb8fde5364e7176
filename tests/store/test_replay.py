"""Replay of a session to any record number, from any snapshot."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import RecordNotFound
from supervisor.core.facts import fact_of, number_facts
from supervisor.core.fold import fold, replay
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.store.replay import replay_from
from tests.support.store_samples import ONE, random_session

SEEDS = 20


@functools.cache
def random_history(seed: int) -> tuple[tuple[Record, ...], tuple[SessionState, ...]]:
    """Return the records of a random session, and its state after each of them."""
    facts = [fact for _, facts, _ in random_session(seed, 40) for fact in facts]
    records = number_facts(ONE, facts, after=0)
    first = replay(records[:1])
    assert first is not None
    states = [first]
    for record in records[1:]:
        states.append(fold(states[-1], fact_of(record)))
    return records, tuple(states)


@given(seed=st.integers(0, SEEDS), data=st.data())
def test_a_replay_from_any_snapshot_equals_one_from_the_start(
    seed: int, data: st.DataObject
) -> None:
    records, states = random_history(seed)
    number = data.draw(st.integers(1, len(records)))
    start = data.draw(st.integers(1, len(records)))
    given_from = data.draw(st.integers(0, start if start <= number else 0))

    from_start = replay_from(None, records, number)
    from_snapshot = replay_from((start, states[start - 1]), records[given_from:], number)

    assert from_start == from_snapshot == states[number - 1]


@given(seed=st.integers(0, SEEDS), number=st.integers())
def test_an_unknown_number_is_refused_from_any_snapshot(seed: int, number: int) -> None:
    records, states = random_history(seed)
    if 1 <= number <= len(records):
        number += len(records)

    for snapshot in (None, (1, states[0]), (len(records), states[-1])):
        with pytest.raises(RecordNotFound):
            replay_from(snapshot, records, number)


def test_the_refusal_names_the_existing_numbers() -> None:
    records, _ = random_history(0)

    with pytest.raises(RecordNotFound, match=f"the last is {len(records)}") as beyond:
        replay_from(None, records, len(records) + 1)
    with pytest.raises(RecordNotFound, match="numbered from 1"):
        replay_from(None, records, 0)

    assert beyond.value.code == "record_not_found"
    assert beyond.value.hint


def test_a_session_without_records_has_no_state() -> None:
    with pytest.raises(RecordNotFound, match="the last is 0"):
        replay_from(None, [], 1)


def test_a_number_must_be_an_integer() -> None:
    for number in (True, 1.0, "1", None):
        with pytest.raises(RecordNotFound):
            replay_from(None, random_history(0)[0], number)  # type: ignore[arg-type]


def test_a_snapshot_of_the_requested_number_needs_no_records() -> None:
    _, states = random_history(0)

    assert replay_from((3, states[2]), [], 3) == states[2]


def test_records_after_a_gap_are_not_folded() -> None:
    records, states = random_history(0)

    with pytest.raises(RecordNotFound, match="record 2 is missing"):
        replay_from((1, states[0]), records[2:], 4)
    with pytest.raises(RecordNotFound, match="record 1 is missing"):
        replay_from((5, states[4]), records[5:], 3)


def test_only_the_needed_records_are_taken() -> None:
    records, states = random_history(0)
    rest = iter(records)

    replay_from((2, states[1]), rest, 4)

    assert next(rest) is records[4]
