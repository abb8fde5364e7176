"""Folding the stored records gives the stored row, whatever has happened (invariant 39)."""

from __future__ import annotations

from supervisor.core import events as ev
from supervisor.core.facts import DECIDED
from supervisor.core.folds import fold
from supervisor.core.ids import SessionId
from supervisor.core.records import numbered, replay
from supervisor.core.session import Session
from supervisor.store.port import Store, Write
from tests.store.cast import ONE, TWO, claim, differences, everything, life

SEEDS = range(200)
LENGTH = 60


async def live(store: Store, seed: int, session_id: SessionId = ONE) -> list[Session]:
    """Live a life in the store, one commit a step; give the session as it was at each number."""
    epoch, states = 0, list[Session]()
    for session, facts, event in life(seed, LENGTH, session_id):
        if isinstance(event, ev.Claimed | ev.SupervisorRestarted):
            stored = await claim(store, session_id)
            assert stored is not None
            epoch = stored.epoch
        if facts:
            records = numbered(session_id, facts, after=len(states))
            assert await store.commit([Write(session_id, epoch, records, session)]) == [None]
            states += [session] * len(facts)
    return states


async def test_replaying_the_stored_records_gives_the_stored_row(store: Store) -> None:
    for seed in SEEDS:
        session_id = SessionId(f"s_{seed}")
        states = await live(store, seed, session_id)

        stored = await store.read(session_id)
        replayed = replay(await store.records(session_id))

        assert stored is not None
        assert differences(replayed, states[-1]) == [], f"seed {seed}"
        assert differences(stored.row, states[-1]) == [], f"seed {seed}"
        assert stored.last_seq == len(states)


async def test_every_row_on_the_way_was_what_the_records_so_far_give(store: Store) -> None:
    for seed in range(20):
        session_id = SessionId(f"s_{seed}")
        states = await live(store, seed, session_id)
        for number, state in enumerate(states, 1):
            if number == len(states) or states[number] is not state:
                assert replay(await store.records(session_id, limit=number)) == state


async def test_a_row_and_the_records_after_it_give_the_row_of_today(store: Store) -> None:
    states = await live(store, 7)

    for number, state in enumerate(states, 1):
        if number < len(states) and states[number] is state:
            continue
        replayed = state
        for record in await store.records(ONE, after=number):
            replayed = fold(replayed, record.fact)
        assert replayed == states[-1]


async def test_lives_beside_each_other_do_not_mix(store: Store) -> None:
    first = await live(store, 1, ONE)
    second = await live(store, 2, TWO)

    assert replay(await store.records(ONE)) == first[-1]
    assert replay(await store.records(TWO)) == second[-1]
    together = [record for _, record in await store.all_records()]
    assert together == await store.records(ONE) + await store.records(TWO)


async def test_a_life_lived_twice_is_stored_the_same(store: Store) -> None:
    await live(store, 5, ONE)
    first = await everything(store)
    await store.delete(ONE)

    states = await live(store, 5, ONE)

    assert replay(await store.records(ONE)) == states[-1]
    assert [record for _, record in await store.all_records()] == [r for _, r in first[1]]


def test_the_lives_write_every_kind_of_record() -> None:
    written = {fact.kind for seed in SEEDS for _, facts, _ in life(seed, LENGTH) for fact in facts}

    assert written == set(DECIDED)
