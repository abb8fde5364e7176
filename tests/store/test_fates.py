"""What became of one input is found at once, whatever else its session has done."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.ids import InputId, SessionId
from supervisor.core.records import Record
from supervisor.store.fates import fate_of
from supervisor.store.port import Store, Write
from supervisor.store.sqlite import reading
from supervisor.store.sqlite.store import open_sqlite
from tests.store.cast import NOBODY, ONE, TWO, birth, life

A, B = InputId("in_a"), InputId("in_b")


def told(*facts: tuple[str, dict[str, Any]], session_id: SessionId = ONE) -> tuple[Record, ...]:
    """Records after the first, of these kinds and with these bodies."""
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


async def keep(store: Store, records: Iterable[Record], session_id: SessionId = ONE) -> None:
    assert await store.commit([birth(session_id), Write(session_id, 0, tuple(records))]) == [
        None,
        None,
    ]


async def kinds(store: Store, input_id: str, session_id: SessionId = ONE) -> list[str]:
    return [one.kind for one in await store.records_of_input(session_id, InputId(input_id))]


async def test_it_ends_with_the_end_of_its_own_turn(store: Store) -> None:
    first = (accepted(A), settled(A, "delivered"), started(A, "t1"), *said(3))
    await keep(store, told(*first, accepted(B), ended("t1"), started(B, "t2"), ended("t2")))

    assert await kinds(store, A) == [
        "input_accepted",
        "input_settled",
        "turn_started",
        "turn_ended",
    ]
    assert await kinds(store, B) == ["input_accepted", "turn_started", "turn_ended"]
    assert (await store.records_of_input(ONE, A))[-1].body == {"turn_id": "t1"}


async def test_one_that_was_steered_in_ends_with_the_turn_that_took_it(store: Store) -> None:
    begun = (accepted(A), started(A, "t1"), accepted(B), settled(B, "steered", turn_id="t1"))
    await keep(store, told(*begun, *said(2), ended("t1"), ended("t2")))

    assert await kinds(store, B) == ["input_accepted", "input_settled", "turn_ended"]


@pytest.mark.parametrize("outcome", ["cancelled", "expired", "failed"])
async def test_one_that_never_ran_ends_when_it_is_settled(store: Store, outcome: str) -> None:
    await keep(store, told(accepted(A), settled(A, outcome), started(B, "t1"), ended("t1")))

    assert await kinds(store, A) == ["input_accepted", "input_settled"]


async def test_one_that_waits_was_only_accepted(store: Store) -> None:
    await keep(store, told(accepted(A), accepted(B), started(A, "t1"), ended("t1")))

    assert await kinds(store, B) == ["input_accepted"]


@pytest.mark.parametrize("strange", ["in_c", "", "in_%", "'", "in_a\0", "*"])
async def test_one_that_never_was_accepted_has_no_fate(store: Store, strange: str) -> None:
    await keep(store, told(accepted(A), started(A, "t1"), started("in_c", "t2")))

    assert await kinds(store, strange) == []


async def test_it_is_looked_for_in_its_own_session_only(store: Store) -> None:
    await keep(store, told(accepted(A), started(A, "t1")))
    await keep(store, told(accepted(B), session_id=TWO), TWO)

    assert await kinds(store, A, TWO) == await kinds(store, A, NOBODY) == []


@pytest.mark.parametrize("seed", range(20))
async def test_both_ways_of_looking_find_the_same_in_any_life(store: Store, seed: int) -> None:
    last = 0
    for session, facts, _ in life(seed, 80, ONE):
        records = tuple(
            Record(ONE, last + place, fact.at, fact.turn, fact.kind, fact.body)
            for place, fact in enumerate(facts, 1)
        )
        last += len(records)
        assert await store.commit([Write(ONE, 0, records, session)]) == [None]
    everything = await store.records(ONE)
    inputs = {one.body["input_id"] for one in everything if one.kind == "input_accepted"}

    for input_id in inputs:
        assert await store.records_of_input(ONE, input_id) == fate_of(input_id, everything)


async def test_to_find_it_takes_as_many_steps_however_much_was_said_before(tmp_path: Path) -> None:
    steps: list[int] = []
    for count in (10, 5_000):
        path = tmp_path / f"{count}.db"
        before = [fact for number in range(count) for fact in (accepted(f"in_{number}"), *said(1))]
        async with open_sqlite(path) as store:
            await keep(store, told(*before, accepted(A), started(A, "t1"), ended("t1"), *before))
        with contextlib.closing(sqlite3.connect(path)) as connection:
            taken = [0]

            def one_more(taken: list[int] = taken) -> None:
                taken[0] += 1

            connection.set_progress_handler(one_more, 1)
            assert len(reading.records_of_input(connection, ONE, A)) == 3
        steps += taken

    assert steps[1] < 1.2 * steps[0] + 20, steps
