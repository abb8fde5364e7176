"""A degraded store is detected, probed and recovered by itself, and both changes are reported."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
import trio

from supervisor import HookEvent, Session, Supervisor
from tests.support.fake_agents import AgentRun
from tests.support.fake_store import PROBLEM, FailingStore, degrade


def listen(sup: Supervisor) -> list[HookEvent]:
    heard: list[HookEvent] = []
    sup.hooks.add("health_changed", heard.append)
    return heard


async def test_observers_get_the_degradation_and_the_recovery(
    store: FailingStore, sup: Supervisor
) -> None:
    heard = listen(sup)
    await degrade(store, sup)
    await trio.sleep(10)
    await store.recover()
    await trio.sleep(10)

    assert [dict(event.data) for event in heard] == [
        {"badge": "unhealthy", "before": "healthy", "detail": PROBLEM},
        {"badge": "healthy", "before": "unhealthy", "detail": None},
    ]
    assert {event.session_id for event in heard} == {None}


async def test_health_observers_get_the_documented_fields(
    store: FailingStore, sup: Supervisor, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    listen(sup)
    await degrade(store, sup)
    await session.stop()
    await store.recover()

    assert "other fields" not in caplog.text


async def test_degradation_and_recovery_are_logged_once_each(
    store: FailingStore, sup: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    await degrade(store, sup)
    await trio.sleep(100)
    await store.recover()

    said = [(one.levelno, one.getMessage()) for one in caplog.records if one.name == "supervisor"]
    assert [level for level, _ in said] == [logging.ERROR, logging.WARNING]
    assert PROBLEM in said[0][1]
    assert "store recovered" in said[1][1]


async def test_a_degraded_store_is_retried_at_least_every_two_seconds(
    store: FailingStore, sup: Supervisor
) -> None:
    await degrade(store, sup)
    await trio.sleep(60)

    gaps = [after - before for before, after in pairwise(store.attempts)]
    assert max(gaps) <= 2.001
    assert min(gaps[-20:]) > 0.05


async def test_a_healthy_store_is_never_probed_while_idle(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await degrade(store, sup)
    await store.recover()
    attempts = len(store.attempts)

    await trio.sleep(60)

    assert len(store.attempts) == attempts


async def test_at_most_one_retry_task_runs_after_repeated_degradations(
    store: FailingStore, sup: Supervisor
) -> None:
    for _ in range(30):
        await degrade(store, sup)
        store.is_failing = False
        await sup._services.health.wait_healthy()
    await degrade(store, sup)
    await trio.sleep(20)
    attempts = len(store.attempts)

    await trio.sleep(20)

    assert len(store.attempts) - attempts <= 11


async def test_the_store_recovers_by_itself_without_pending_writes(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await degrade(store, sup)
    store.is_failing = False

    with trio.fail_after(2.1):
        await sup._services.health.wait_healthy()

    await session.send("hello")


async def test_a_failing_claim_degrades_the_store(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await trio.sleep(5)
    store.start_failing()

    with trio.move_on_after(1), pytest.raises(Exception, match="disk is full"):
        await session.resume()

    assert sup._services.health.is_degraded
    await store.recover()
    assert not sup._services.health.is_degraded


async def test_a_failing_delete_degrades_the_store(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await session.stop()
    await trio.sleep(5)
    store.start_failing()

    with pytest.raises(Exception, match="disk is full"):
        await sup.delete(session.id)

    assert sup._services.health.is_degraded


async def test_a_session_continues_in_memory_and_shows_unhealthy(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    heard = listen(sup)
    await degrade(store, sup)
    await session.interrupt()
    await store.recover()

    assert {event.session_id for event in heard} == {None, session.id}


async def test_record_observers_are_called_after_the_commit(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ends: list[HookEvent] = []
    sup.hooks.add("turn_end", ends.append)
    await degrade(store, sup)
    run.finish("done")
    await trio.sleep(10)
    assert ends == []

    await store.recover()

    assert [event.data["outcome"] for event in ends] == ["completed"]
