"""Folding the stored records yields the stored row, for any history."""

from __future__ import annotations

from supervisor.core import agent_events
from supervisor.core.facts import fact_of, number_facts
from supervisor.core.fold import fold, replay
from supervisor.core.ids import SessionId
from supervisor.core.records import DECIDED
from supervisor.core.state import SessionState
from supervisor.store.port import Store, Write
from tests.support.store_samples import (
    ONE,
    TWO,
    claim,
    differences,
    random_session,
    visible_data_of,
)

SEEDS = range(200)
LENGTH = 60


async def live(store: Store, seed: int, session_id: SessionId = ONE) -> list[SessionState]:
    """Commit a random session step by step; return its state at each number."""
    epoch, states = 0, list[SessionState]()
    for session, facts, event in random_session(seed, LENGTH, session_id):
        if isinstance(event, agent_events.Claimed | agent_events.SupervisorRestarted):
            stored = await claim(store, session_id)
            assert stored is not None
            epoch = stored.epoch
        if facts:
            records = number_facts(session_id, facts, after=len(states))
            assert await store.commit([Write(session_id, epoch, records, session)]) == [None]
            states += [session] * len(facts)
    return states


async def test_replaying_the_stored_records_yields_the_stored_row(store: Store) -> None:
    for seed in SEEDS:
        session_id = SessionId(f"s_{seed}")
        states = await live(store, seed, session_id)

        stored = await store.read(session_id)
        replayed = replay(await store.records(session_id))

        assert stored is not None
        assert differences(replayed, states[-1]) == [], f"seed {seed}"
        assert differences(stored.row, states[-1]) == [], f"seed {seed}"
        assert stored.last_seq == len(states)


async def test_every_intermediate_row_is_the_fold_of_its_records(store: Store) -> None:
    for seed in range(20):
        session_id = SessionId(f"s_{seed}")
        states = await live(store, seed, session_id)
        for number, state in enumerate(states, 1):
            if number == len(states) or states[number] is not state:
                assert replay(await store.records(session_id, limit=number)) == state


async def test_a_row_and_later_records_yield_the_current_row(store: Store) -> None:
    states = await live(store, 7)

    for number, state in enumerate(states, 1):
        if number < len(states) and states[number] is state:
            continue
        replayed = state
        for record in await store.records(ONE, after=number):
            replayed = fold(replayed, fact_of(record))
        assert replayed == states[-1]


async def test_interleaved_histories_do_not_mix(store: Store) -> None:
    first = await live(store, 1, ONE)
    second = await live(store, 2, TWO)

    assert replay(await store.records(ONE)) == first[-1]
    assert replay(await store.records(TWO)) == second[-1]
    together = [record for _, record in await store.all_records()]
    assert together == await store.records(ONE) + await store.records(TWO)


async def test_an_equal_history_is_stored_equally(store: Store) -> None:
    await live(store, 5, ONE)
    first = await visible_data_of(store)
    await store.delete(ONE)

    states = await live(store, 5, ONE)

    assert replay(await store.records(ONE)) == states[-1]
    assert [record for _, record in await store.all_records()] == [r for _, r in first[1]]


def test_the_histories_contain_every_kind_of_record() -> None:
    written = {
        fact.kind
        for seed in SEEDS
        for _, facts, _ in random_session(seed, LENGTH)
        for fact in facts
    }

    assert written == set(DECIDED)
