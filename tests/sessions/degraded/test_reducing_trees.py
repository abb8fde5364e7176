"""Stops and interrupts of trees, and rejections, take effect at once in a degraded store."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import Ladder, Limits, Session, Settings, StoreDegraded, Supervisor, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.pending import PendingWrite
from supervisor.store.port import Stored, Write
from supervisor.store.writer_messages import Commit, Retry
from tests.support.fake_agents import (
    AgentAction,
    AgentRun,
    FakeAgent,
    Interrupted,
    records,
)
from tests.support.fake_store import DEGRADATIONS, Degradation, FailingStore, check_stored, degrade


@pytest.fixture
def settings() -> Settings:
    return Settings(ladder=Ladder(ask_seconds=3.0))


# Families -------------------------------------------------------------------------------


async def test_children_stop_before_their_parents(
    store: FailingStore, sup: Supervisor, session: Session, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "errand")
    grandchild = await child.spawn("child-agent", "errand")
    runs = [await child_agent.next_run(), await child_agent.next_run()]
    await degrade(store, sup)
    began = trio.current_time()

    with trio.fail_after(10):
        await session.stop()

    assert trio.current_time() == began
    assert all(run.over.is_set() for run in runs)
    assert [(await one.info()).phase for one in (child, grandchild)] == ["stopped", "stopped"]
    await store.recover()
    stops = [
        record.session_id
        for _, record in await store.all_records()
        if record.kind == "session_stopped"
    ]
    assert stops == [grandchild.id, child.id, session.id]
    await check_stored(store, session, child, grandchild)


async def test_a_tree_is_interrupted_from_the_bottom_up(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "errand")
    errand = await child_agent.next_run()
    await degrade(store, sup)

    report = await session.interrupt("tree")

    assert (report.matched, report.stopped) == (2, 2)
    assert errand.over.is_set()
    assert run.over.is_set()
    await store.recover()
    await check_stored(store, session, child)


async def test_a_tree_is_interrupted_although_one_member_waits_for_the_store(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "errand")
    errand = await child_agent.next_run()
    await child.send("second")
    store.start_failing()
    errand.finish()
    await settle()

    with trio.fail_after(10):
        report = await session.interrupt("tree")

    assert run.over.is_set()
    assert report.stopped >= 1


async def test_a_child_spawned_in_flight_never_runs_for_a_stopped_parent(
    store: FailingStore,
    sup: Supervisor,
    session: Session,
    child_agent: FakeAgent,
    nursery: trio.Nursery,
) -> None:
    store.start_failing()
    nursery.start_soon(_spawn, session)
    await settle()

    with trio.fail_after(10):
        await session.stop()

    await store.recover()
    await trio.sleep(10)
    assert child_agent.runs == []
    assert [info.phase for info in (await sup.list()).items] in (["stopped"], ["stopped"] * 2)
    assert (await session.info()).phase == "stopped"


async def test_a_parent_with_a_suspended_child_stops(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "errand", suspend_after_seconds=1.0)
    (await child_agent.next_run()).finish()
    await trio.sleep(5)
    assert (await child.info()).phase == "suspended"
    await degrade(store, sup)

    with trio.move_on_after(10):
        await session.stop()

    assert run.over.is_set()
    await store.recover()
    await trio.sleep(5)
    assert [(await one.info()).phase for one in (child, session)] == ["stopped", "stopped"]
    await check_stored(store, session, child)


@pytest.mark.parametrize("how", DEGRADATIONS, ids=lambda how: how.__name__)
async def test_a_parent_stops_at_once_although_its_child_is_suspended(
    store: FailingStore,
    session: Session,
    run: AgentRun,
    child_agent: FakeAgent,
    how: Degradation,
) -> None:
    child = await session.spawn("child-agent", "errand", suspend_after_seconds=1.0)
    (await child_agent.next_run()).finish()
    await trio.sleep(5)
    await how(store, session)

    with trio.fail_after(1):
        await session.stop()

    assert run.over.is_set()
    assert [(await one.info()).phase for one in (child, session)] == ["stopped", "stopped"]
    await store.recover()
    last = [(await records(one, "session_stopped"))[-1] for one in (child, session)]
    assert [one.body["reason"] for one in last] == ["parent_stopped", "user_cancelled"]
    assert store.written.index((child.id, last[0].seq)) < store.written.index(
        (session.id, last[1].seq)
    )
    await check_stored(store, session, child)


@pytest.mark.parametrize("how", DEGRADATIONS, ids=lambda how: how.__name__)
async def test_a_suspended_session_is_stopped_after_recovery(
    store: FailingStore, session: Session, how: Degradation
) -> None:
    await go_to_rest(session)
    await how(store, session)

    with trio.fail_after(0.5):
        await session.stop()
        await session.stop()
    assert (await session.interrupt()).matched == 0
    assert (await session.info()).phase == "stopped"

    await store.recover()
    with trio.fail_after(1):
        assert (await session.wait_stopped()).stop_reason == "user_cancelled"
    assert len(await records(session, "session_stopped")) == 1
    await check_stored(store, session)


async def test_a_suspended_session_stops_when_the_store_recovers_during_the_request(
    store: FailingStore, sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await go_to_rest(session)
    await degrade(store, sup)
    await leave_write(sup, session)
    lines = sup._parts.router
    stop, read = lines.stop, store.read
    refusals: list[StoreDegraded] = []

    async def stop_once(*args: Any, **more: Any) -> None:  # noqa: ANN401 - as it is called
        try:
            await stop(*args, **more)
        except StoreDegraded as refusal:
            refusals.append(refusal)
            raise

    async def read_slowly(session_id: SessionId) -> Stored | None:
        stored = await read(session_id)
        if refusals and store.is_failing:
            await store.recover()
        return stored

    monkeypatch.setattr(lines, "stop", stop_once)
    monkeypatch.setattr(store, "read", read_slowly)
    await session.stop()

    await trio.sleep(10)
    assert len(refusals) == 1
    assert (await session.info()).phase == "stopped"


async def test_a_stop_of_a_suspended_session_is_retried_after_a_late_refusal(
    store: FailingStore, sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await go_to_rest(session)
    await degrade(store, sup)
    await leave_write(sup, session)
    await session.stop()
    lines = sup._parts.router
    ask, late = lines.ask, [StoreDegraded("the disk was full", hint="it is not any more")]

    async def ask_late(*args: Any, **more: Any) -> object:  # noqa: ANN401 - as it is called
        if late and not sup._services.health.is_degraded:
            raise late.pop()
        return await ask(*args, **more)

    monkeypatch.setattr(lines, "ask", ask_late)
    await store.recover()
    await trio.sleep(5)

    assert not late
    assert (await session.info()).phase == "stopped"


async def test_an_input_sent_after_a_degraded_stop_is_ordered_after_it(
    store: FailingStore, sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    await go_to_rest(session)
    await degrade(store, sup)
    await session.stop()
    with pytest.raises(StoreDegraded):
        await session.send("too early")

    store.is_failing = False
    await sup._services.writer.ask(Retry(), timeout_seconds=1.0)
    await session.send("again")

    run = await fake_agent.next_run()
    assert run.turn.text == "again"
    kinds = [one.kind for one in await records(session)]
    assert kinds.index("session_stopped") < kinds.index("session_resumed")
    run.finish()
    await settle()
    assert (await session.info()).phase == "idle"


async def test_a_pending_stop_of_a_deleted_session_is_dropped(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await go_to_rest(session)
    await degrade(store, sup)
    await session.stop()

    await store.recover()
    await sup.delete(session.id)

    assert not await sup.exists(session.id)


async def go_to_rest(session: Session) -> None:
    await session.set(title="at rest")
    await trio.sleep(2_000)
    assert (await session.info()).phase == "suspended"


async def leave_write(sup: Supervisor, session: Session) -> None:
    """Leave a pending write of an earlier incarnation: then the session cannot be claimed."""
    write = Write(session.id, 0, ())
    answer = await sup._services.writer.ask(Commit(write), timeout_seconds=1.0)
    assert isinstance(answer, PendingWrite)


async def test_a_budget_that_is_spent_stops_the_turn_at_once(
    store: FailingStore, sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(tokens=10))
    await session.send("first")
    run = await fake_agent.next_run()
    await degrade(store, sup)

    run.turn.usage(output_tokens=20)
    with trio.fail_after(5):
        await session.wait_stopped()

    assert run.over.is_set()
    await store.recover()
    assert (await records(session, "session_stopped"))[-1].body["reason"] == "budget_exceeded"
    await check_stored(store, session)


# Rejections -----------------------------------------------------------------------------


async def ask(run: AgentRun) -> AgentAction[bool]:
    action = run.begin(run.turn.ask("may I?", tool="bash"))
    await settle()
    return action


@pytest.mark.parametrize("decision", ["reject_once", "reject_always"])
async def test_a_rejection_reaches_the_agent_at_once(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, decision: str
) -> None:
    action = await ask(run)
    (request,) = await sup.permissions()
    await degrade(store, sup)

    with trio.fail_after(1):
        await sup.answer(request.id, decision)  # type: ignore[arg-type] # one of its words
        assert not await action.wait()

    await store.recover()
    assert len(await records(session, "permission_answered")) == 1
    assert await sup.permissions() == ()
    await check_stored(store, session)


async def test_an_interrupt_cancels_permission_requests(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    action = await ask(run)
    await degrade(store, sup)

    await session.interrupt()

    with pytest.raises(Interrupted):
        await action.wait()
    await store.recover()
    assert await sup.permissions() == ()
    await check_stored(store, session)


async def _spawn(parent: Session) -> None:
    with suppress(SupervisorError):
        await parent.spawn("child-agent", "errand")
