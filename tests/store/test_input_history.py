"""The history of one input is found at a cost independent of the rest of the session."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.ids import InputId, SessionId
from supervisor.core.records import Record
from supervisor.store.port import Store, Write
from supervisor.store.replay import input_history
from supervisor.store.sqlite import read
from supervisor.store.sqlite.store import open_sqlite
from tests.support.store_samples import ONE, TWO, UNKNOWN, creation_write, random_session

A, B = InputId("in_a"), InputId("in_b")


def records_of(
    *facts: tuple[str, dict[str, Any]], session_id: SessionId = ONE
) -> tuple[Record, ...]:
    """Return records after the first, with these kinds and bodies."""
    return tuple(
        Record(session_id, seq, 2.0, body.get("turn_id"), kind, body)  # type: ignore[arg-type]
        for seq, (kind, body) in enumerate(facts, 2)
    )


def accepted(input_id: str) -> tuple[str, dict[str, Any]]:
    return "input_accepted", {"input_id": input_id}


def settled(input_id: str, outcome: str, **more: str) -> tuple[str, dict[str, Any]]:
    return "input_settled", {"input_id": input_id, "outcome": outcome, **more}


def started(input_id: str, turn: str) -> tuple[str, dict[str, Any]]:
    return "turn_started", {"input_id": input_id, "turn_id": turn}


def ended(turn: str) -> tuple[str, dict[str, Any]]:
    return "turn_ended", {"turn_id": turn}


def said(count: int) -> list[tuple[str, dict[str, Any]]]:
    return [("agent_text", {"text": "word"})] * count


async def store_records(
    store: Store, records: Iterable[Record], session_id: SessionId = ONE
) -> None:
    assert await store.commit(
        [creation_write(session_id), Write(session_id, 0, tuple(records))]
    ) == [
        None,
        None,
    ]


async def kinds(store: Store, input_id: str, session_id: SessionId = ONE) -> list[str]:
    return [one.kind for one in await store.records_of_input(session_id, InputId(input_id))]


async def test_an_input_history_ends_with_the_end_of_its_turn(store: Store) -> None:
    first = (accepted(A), settled(A, "delivered"), started(A, "t1"), *said(3))
    await store_records(
        store, records_of(*first, accepted(B), ended("t1"), started(B, "t2"), ended("t2"))
    )

    assert await kinds(store, A) == [
        "input_accepted",
        "input_settled",
        "turn_started",
        "turn_ended",
    ]
    assert await kinds(store, B) == ["input_accepted", "turn_started", "turn_ended"]
    assert (await store.records_of_input(ONE, A))[-1].body == {"turn_id": "t1"}


async def test_the_history_of_a_steered_input_ends_with_its_turn(store: Store) -> None:
    begun = (accepted(A), started(A, "t1"), accepted(B), settled(B, "steered", turn_id="t1"))
    await store_records(store, records_of(*begun, *said(2), ended("t1"), ended("t2")))

    assert await kinds(store, B) == ["input_accepted", "input_settled", "turn_ended"]


@pytest.mark.parametrize("outcome", ["cancelled", "expired", "failed"])
async def test_a_history_of_an_input_that_never_ran_ends_when_settled(
    store: Store, outcome: str
) -> None:
    await store_records(
        store, records_of(accepted(A), settled(A, outcome), started(B, "t1"), ended("t1"))
    )

    assert await kinds(store, A) == ["input_accepted", "input_settled"]


async def test_a_queued_input_has_only_its_accepted_record(store: Store) -> None:
    await store_records(store, records_of(accepted(A), accepted(B), started(A, "t1"), ended("t1")))

    assert await kinds(store, B) == ["input_accepted"]


@pytest.mark.parametrize("strange", ["in_c", "", "in_%", "'", "in_a\0", "*"])
async def test_an_unknown_input_has_no_history(store: Store, strange: str) -> None:
    await store_records(store, records_of(accepted(A), started(A, "t1"), started("in_c", "t2")))

    assert await kinds(store, strange) == []


async def test_an_input_is_searched_in_its_own_session_only(store: Store) -> None:
    await store_records(store, records_of(accepted(A), started(A, "t1")))
    await store_records(store, records_of(accepted(B), session_id=TWO), TWO)

    assert await kinds(store, A, TWO) == await kinds(store, A, UNKNOWN) == []


@pytest.mark.parametrize("seed", range(20))
async def test_records_of_input_equal_the_filtered_records(store: Store, seed: int) -> None:
    last = 0
    for session, facts, _ in random_session(seed, 80, ONE):
        records = tuple(
            Record(ONE, last + place, fact.at, fact.turn, fact.kind, fact.body)
            for place, fact in enumerate(facts, 1)
        )
        last += len(records)
        assert await store.commit([Write(ONE, 0, records, session)]) == [None]
    everything = await store.records(ONE)
    inputs = {one.body["input_id"] for one in everything if one.kind == "input_accepted"}

    for input_id in inputs:
        assert await store.records_of_input(ONE, input_id) == input_history(input_id, everything)


async def test_the_cost_of_an_input_history_is_independent_of_earlier_records(
    tmp_path: Path,
) -> None:
    steps: list[int] = []
    for count in (10, 5_000):
        path = tmp_path / f"{count}.db"
        before = [fact for number in range(count) for fact in (accepted(f"in_{number}"), *said(1))]
        async with open_sqlite(path) as store:
            await store_records(
                store, records_of(*before, accepted(A), started(A, "t1"), ended("t1"), *before)
            )
        with contextlib.closing(sqlite3.connect(path)) as connection:
            taken = [0]

            def one_more(taken: list[int] = taken) -> None:
                taken[0] += 1

            connection.set_progress_handler(one_more, 1)
            assert len(read.records_of_input(connection, ONE, A)) == 3
        steps += taken

    assert steps[1] < 1.2 * steps[0] + 20, steps
