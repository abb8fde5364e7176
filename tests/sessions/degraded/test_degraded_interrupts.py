"""While the store is degraded, interrupts of calls and trees are complete, and recorded later."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Call,
    InterruptReport,
    Session,
    StoreDegraded,
    Supervisor,
    ToolCall,
    TurnScope,
)
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records
from tests.support.fake_store import FailingStore, check_stored, degrade


@pytest.fixture
async def sup(
    fake_agent: FakeAgent, shielded_agent: FakeAgent, child_agent: FakeAgent
) -> AsyncIterator[Supervisor]:
    agents = [fake_agent.agent, shielded_agent.agent, child_agent.agent]
    async with supervisor.open(":memory:", agents=agents) as opened:
        try:
            yield opened
        finally:
            for one in (fake_agent, shielded_agent, child_agent):
                one.finish_open_runs()


async def test_a_call_that_does_not_end_is_unreachable_in_time(
    store: FailingStore, sup: Supervisor, shielded_session: Session, shielded_run: AgentRun
) -> None:
    opened: list[Call] = []

    async def shielded_call() -> None:
        async with shielded_run.turn.tool("bash") as call:
            opened.append(call)
            with trio.CancelScope(shield=True):
                await trio.sleep(60)

    shielded_run.begin(shielded_call())
    await settle()
    await degrade(store, sup)
    report = await shielded_session.interrupt(ToolCall(opened[0].id))

    assert report == InterruptReport("tool_call", matched=1, unreachable=1, seconds=5.0)
    await store.recover()
    await settle()
    asked = await records(shielded_session, "interrupted")
    assert [one.body["unreachable"] for one in asked] == [0, 1]
    await check_stored(store, shielded_session)


@pytest.mark.parametrize(
    "scope", [TurnScope("turn_never"), ToolCall("call_never")], ids=("turn", "call")
)
async def test_an_interrupt_of_an_id_that_never_was_reports_unknown(
    store: FailingStore,
    sup: Supervisor,
    session: Session,
    run: AgentRun,
    scope: TurnScope | ToolCall,
) -> None:
    await degrade(store, sup)

    report = await session.interrupt(scope)

    assert (report.unknown, report.already_over) == (1, 0)
    assert not run.over.is_set()


async def test_an_interrupt_of_a_call_that_is_only_pending_reports_already_over(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)
    call = await run.open_call("bash")
    await call.close()
    await settle()

    report = await session.interrupt(ToolCall(call.id))

    assert report == InterruptReport("tool_call", already_over=1)
    await store.recover()
    assert await session.interrupt(ToolCall(call.id)) == report


async def test_an_interrupt_of_an_ended_turn_reports_already_over(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    run.finish()
    await settle()
    await degrade(store, sup)

    assert (await session.interrupt(TurnScope(run.turn.id))).already_over == 1


async def test_an_interrupt_is_refused_if_its_target_cannot_be_looked_up(
    store: FailingStore,
    sup: Supervisor,
    session: Session,
    run: AgentRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> bool:
        await trio.lowlevel.checkpoint()
        raise StoreDegraded("the file cannot be read", hint="look at the disk")

    monkeypatch.setattr(store, "ran", fail)

    with pytest.raises(StoreDegraded, match="cannot be read"):
        await session.interrupt(TurnScope("turn_never"))

    assert not run.over.is_set()


@pytest.mark.parametrize("phase", ["idle", "stopped"])
async def test_the_outcome_of_a_tree_interrupt_is_recorded_when_the_store_recovers(
    store: FailingStore, sup: Supervisor, child_agent: FakeAgent, phase: str
) -> None:
    root = await sup.create("fake")
    child = await root.spawn("child-agent", "errand", lifetime="detached")
    errand = await child_agent.next_run()
    if phase == "stopped":
        await root.stop()
        await trio.sleep(5.0)
    await degrade(store, sup)
    began = trio.current_time()
    report = await root.interrupt("tree")

    assert (report.matched, report.stopped) == (1, 1)
    assert trio.current_time() == began
    assert errand.over.is_set()
    await store.recover()
    await trio.sleep(10.0)
    (tree,) = await records(root, "interrupted")
    assert (tree.body["scope"], tree.body["stopped"]) == ("tree", 1)
    assert (await root.info()).phase == phase
    await check_stored(store, root, child)


async def test_queues_of_members_without_a_turn_are_cancelled_at_once(
    store: FailingStore, sup: Supervisor, session: Session, shielded_agent: FakeAgent
) -> None:
    child = await session.spawn("shielded", "errand")
    await shielded_agent.next_run()
    await child.interrupt()  # its zombie prevents further turns
    later = await child.send("later")
    await degrade(store, sup)
    await session.interrupt("tree", queued="cancel")

    assert (await child.info()).queued == 0
    await store.recover()
    await settle()
    assert (await outcomes(child))[later.input_id] == ["cancelled"]


async def test_a_replacement_is_refused_before_a_member_is_interrupted(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    await session.spawn("child-agent", "errand")
    errand = await child_agent.next_run()
    await degrade(store, sup)

    with pytest.raises(StoreDegraded):
        await session.interrupt("tree", replace_with="instead")

    await settle()
    assert not errand.over.is_set()
    assert not run.over.is_set()
