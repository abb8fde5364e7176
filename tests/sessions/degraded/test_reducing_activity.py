"""While the store is degraded brakes work at once, and are recorded when it is back."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    Ladder,
    Session,
    Settings,
    Supervisor,
    ToolCall,
    TurnScope,
)
from tests.support.fake_agents import (
    AgentRun,
    FakeAgent,
    outcomes,
    records,
)
from tests.support.fake_store import DEGRADATIONS, Degradation, FailingStore, check_stored, degrade


@pytest.fixture
def settings() -> Settings:
    return Settings(ladder=Ladder(ask_seconds=3.0))


async def kinds_after(session: Session, seq: int) -> list[str]:
    return [record.kind for record in await records(session) if record.seq > seq]


# Interrupts -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", DEGRADATIONS, ids=lambda how: how.__name__)
@pytest.mark.parametrize("scope", ["turn", "session", "tree", "by id"])
async def test_a_turn_is_interrupted_at_once(
    store: FailingStore, session: Session, run: AgentRun, scope: str, how: Degradation
) -> None:
    await how(store, session)
    began = trio.current_time()

    target = TurnScope(run.turn.id) if scope == "by id" else scope
    report = await session.interrupt(target)  # type: ignore[arg-type] # one of its words

    assert (report.matched, report.stopped, report.ladder_step) == (1, 1, "ask")
    assert trio.current_time() == began
    assert run.over.is_set()
    await store.recover()
    ended = (await records(session, "turn_ended"))[-1]
    assert ended.body["outcome"] == "interrupted"
    await check_stored(store, session)


async def test_a_tool_call_is_interrupted_alone(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    call = await run.open_call("bash")
    other = await run.open_call("edit")
    await degrade(store, sup)

    report = await session.interrupt(ToolCall(call.id))

    assert (report.matched, report.stopped) == (1, 1)
    assert call.left.is_set()
    assert not other.left.is_set()
    assert not run.over.is_set()
    await store.recover()
    assert [one.body["call_id"] for one in await records(session, "tool_ended")] == [call.id]
    await check_stored(store, session)


async def test_an_interrupt_without_a_target_reports_at_once(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await degrade(store, sup)

    assert (await session.interrupt()).matched == 0


async def test_an_agent_that_ignores_interrupts_is_abandoned_after_the_ladder(
    store: FailingStore, sup: Supervisor, shielded_session: Session, shielded_run: AgentRun
) -> None:
    await degrade(store, sup)
    began = trio.current_time()

    report = await shielded_session.interrupt()

    assert (report.unreachable, trio.current_time() - began) == (1, 3.0)
    shielded_run.finish()
    await store.recover()
    await check_stored(store, shielded_session)


async def test_an_interrupt_with_queued_cancel_cancels_the_queue(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    await degrade(store, sup)

    await session.interrupt(queued="cancel")

    await store.recover()
    assert [*(await outcomes(session)).values()] == [["delivered"], ["cancelled"]]
    assert await fake_agent.finish_all() == []
    await check_stored(store, session)


async def test_queued_inputs_run_after_an_interrupt_only_once_the_store_recovers(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    await degrade(store, sup)

    report = await session.interrupt()

    assert report.stopped == 1
    await trio.sleep(60)
    assert len(fake_agent.runs) == 1
    await store.recover()
    assert [one.turn.text for one in fake_agent.runs] == ["first", "second"]


async def test_an_interrupt_is_answered_while_the_next_turn_waits_for_the_store(
    store: FailingStore, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    store.start_failing()
    run.finish()
    await settle()

    with trio.fail_after(10):
        await session.interrupt()

    await store.recover()
    await check_stored(store, session)


# Stops ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", DEGRADATIONS, ids=lambda how: how.__name__)
async def test_a_session_stops_at_once(
    store: FailingStore, session: Session, run: AgentRun, how: Degradation
) -> None:
    await session.send("second")
    await how(store, session)
    before, began = (await session.info()).last_seq, trio.current_time()

    await session.stop()

    assert trio.current_time() == began
    assert run.over.is_set()
    assert (await session.info()).phase == "stopped"
    assert await kinds_after(session, before) == []
    await store.recover()
    assert (await kinds_after(session, before))[-1] == "session_stopped"
    assert [*(await outcomes(session)).values()] == [["delivered"], ["cancelled"]]
    await check_stored(store, session)


async def test_an_idle_session_stops_at_once(
    store: FailingStore, sup: Supervisor, session: Session
) -> None:
    await degrade(store, sup)

    with trio.fail_after(1):
        await session.stop()

    await store.recover()
    assert (await session.info()).phase == "stopped"
    await check_stored(store, session)


async def test_stopping_twice_is_fine(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun
) -> None:
    await degrade(store, sup)
    await session.stop()

    with trio.fail_after(1):
        await session.stop()

    await store.recover()
    assert len(await records(session, "session_stopped")) == 1


async def test_a_cooperative_stop_waits_for_the_turn_and_not_for_the_store(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    await degrade(store, sup)
    nursery.start_soon(lambda: session.stop(when="after_turn"))
    await settle()
    assert not run.over.is_set()

    run.finish("done")
    with trio.fail_after(1):
        await session.wait_stopped()

    await store.recover()
    assert (await records(session, "turn_ended"))[-1].body["outcome"] == "completed"
    await check_stored(store, session)


async def test_a_session_stops_while_its_first_turn_waits_for_the_store(
    store: FailingStore, session: Session, nursery: trio.Nursery, fake_agent: FakeAgent
) -> None:
    store.start_failing()
    nursery.start_soon(session.send, "hello")
    await settle()

    with trio.fail_after(10):
        await session.stop()

    await store.recover()
    assert fake_agent.runs == []
    await check_stored(store, session)


async def test_a_session_stops_while_its_next_turn_waits_for_the_store(
    store: FailingStore, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    store.start_failing()
    run.finish()
    await settle()

    with trio.fail_after(10):
        await session.stop()

    await store.recover()
    assert len(fake_agent.runs) == 1
    ended = [record.body["outcome"] for record in await records(session, "turn_ended")]
    assert ended in (["completed"], ["completed", "interrupted"])
    await check_stored(store, session)


async def test_a_stopped_session_is_resumed_after_recovery(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await degrade(store, sup)
    await session.stop()
    await store.recover()

    await session.send("again")

    assert (await fake_agent.next_run()).turn.text in ("again", "first")
    await check_stored(store, session)
