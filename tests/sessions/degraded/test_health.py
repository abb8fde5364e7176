"""A degraded store is noticed, looked at again, and well again by itself; and everybody is told."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
import trio

from supervisor import HookEvent, Session, Supervisor
from tests.sessions.cast import Scene
from tests.sessions.degraded.frail import PROBLEM, FrailStore, make_known


def listen(sup: Supervisor) -> list[HookEvent]:
    heard: list[HookEvent] = []
    sup.hooks.add("health_changed", heard.append)
    return heard


async def wait_until_well(sup: Supervisor) -> None:
    while sup._house.health.is_degraded:  # noqa: ASYNC110 - asked rarely
        await trio.sleep(0.01)


async def test_observers_hear_both_changes_and_nothing_else(
    store: FrailStore, sup: Supervisor
) -> None:
    heard = listen(sup)
    await make_known(store, sup)
    await trio.sleep(10)
    await store.get_well()
    await trio.sleep(10)

    assert [dict(event.data) for event in heard] == [
        {"badge": "unhealthy", "before": "well", "detail": PROBLEM},
        {"badge": "well", "before": "unhealthy", "detail": None},
    ]
    assert {event.session_id for event in heard} == {None}


async def test_what_observers_are_told_is_what_their_point_says(
    store: FrailStore, sup: Supervisor, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    listen(sup)
    await make_known(store, sup)
    await session.stop()
    await store.get_well()

    assert "other fields" not in caplog.text


async def test_the_log_says_what_is_wrong_and_when_it_is_over_once_each(
    store: FrailStore, sup: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    await make_known(store, sup)
    await trio.sleep(100)
    await store.get_well()

    said = [(one.levelno, one.getMessage()) for one in caplog.records if one.name == "supervisor"]
    assert [level for level, _ in said] == [logging.ERROR, logging.WARNING]
    assert PROBLEM in said[0][1]
    assert "well again" in said[1][1]


async def test_it_is_looked_at_at_least_every_two_seconds(
    store: FrailStore, sup: Supervisor
) -> None:
    await make_known(store, sup)
    await trio.sleep(60)

    gaps = [after - before for before, after in pairwise(store.tries)]
    assert max(gaps) <= 2.001
    assert min(gaps[-20:]) > 0.05


async def test_a_store_that_is_well_is_never_looked_at(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await make_known(store, sup)
    await store.get_well()
    tries = len(store.tries)

    await trio.sleep(60)

    assert len(store.tries) == tries


async def test_however_often_it_falls_ill_one_looks_after_it(
    store: FrailStore, sup: Supervisor
) -> None:
    for _ in range(30):
        await make_known(store, sup)
        store.is_ill = False
        await wait_until_well(sup)
    await make_known(store, sup)
    await trio.sleep(20)
    tries = len(store.tries)

    await trio.sleep(20)

    assert len(store.tries) - tries <= 11


async def test_it_is_well_again_by_itself_though_nobody_wants_to_write(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await make_known(store, sup)
    store.is_ill = False

    with trio.fail_after(2.1):
        await wait_until_well(sup)

    await session.send("hello")


async def test_a_claim_that_meets_the_fault_is_noticed_too(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await trio.sleep(5)
    store.fall_ill()

    with trio.move_on_after(1), pytest.raises(Exception, match="disk is full"):
        await session.resume()

    assert sup._house.health.is_degraded
    await store.get_well()
    assert not sup._house.health.is_degraded


async def test_a_delete_that_meets_the_fault_is_noticed_too(
    store: FrailStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await trio.sleep(5)
    store.fall_ill()

    with pytest.raises(Exception, match="disk is full"):
        await sup.delete(session.id)

    assert sup._house.health.is_degraded


async def test_a_session_shows_that_it_goes_on_in_memory_and_nothing_breaks(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    heard = listen(sup)
    await make_known(store, sup)
    await session.interrupt()
    await store.get_well()

    assert {event.session_id for event in heard} == {None, session.id}


async def test_observers_of_records_are_told_when_they_are_durable(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene
) -> None:
    ends: list[HookEvent] = []
    sup.hooks.add("turn_end", ends.append)
    await make_known(store, sup)
    scene.finish("done")
    await trio.sleep(10)
    assert ends == []

    await store.get_well()

    assert [event.data["outcome"] for event in ends] == ["completed"]
