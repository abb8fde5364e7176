"""Turns that are under way when the actor crashes."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from supervisor import (
    Phase,
    Session,
    Supervisor,
    TurnOver,
    TurnResult,
)
from tests.support.commit_faults import (
    COMMIT_FAULTS,
    CRASHES,
    CommitFault,
    FaultInjector,
    records_are_consecutive,
    wait_for_restarts,
)
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records, waiting_texts


@pytest.mark.parametrize("fault", CRASHES)
async def test_a_turn_with_a_failed_commit_is_closed_as_lost_once(
    session: Session, run: AgentRun, injector: FaultInjector, fault: CommitFault
) -> None:
    before = await session.info()
    injector.fail_next("tool_call", fault)

    action = run.begin(run.open_call("bash"))
    await wait_for_restarts(session)

    [ended] = await records(session, "turn_ended")
    info = await session.info()
    assert (ended.turn_id, ended.body["outcome"]) == (run.turn.id, "lost")
    assert (info.phase, info.turn_id) == (Phase.IDLE, None)
    assert info.epoch > before.epoch
    assert run.over.is_set()
    assert action.done.is_set()


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_open_calls_and_requests_of_a_lost_turn_are_closed(
    sup: Supervisor, session: Session, run: AgentRun, injector: FaultInjector, fault: CommitFault
) -> None:
    await run.open_call("first")
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    injector.fail_next("session_changed", fault)

    await session.set(title="New")
    await wait_for_restarts(session)

    [call] = await records(session, "tool_ended")
    [answer] = await records(session, "permission_answered")
    assert call.body["outcome"] == "interrupted"
    assert answer.body["decision"] == "cancelled"
    assert await sup.permissions() == ()
    assert (await session.info()).title == "New"


@pytest.mark.parametrize("fault", CRASHES)
async def test_prompt_returns_lost_when_the_turn_is_lost(
    session: Session, fake_agent: FakeAgent, injector: FaultInjector, fault: CommitFault
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        injector.fail_next("tool_call", fault)
        run.begin(run.open_call("bash"))

    assert [result.outcome for result in results] == ["lost"]


@pytest.mark.parametrize("fault", CRASHES)
async def test_the_queue_continues_after_a_lost_turn(
    session: Session,
    run: AgentRun,
    fake_agent: FakeAgent,
    injector: FaultInjector,
    fault: CommitFault,
) -> None:
    second = await session.send("second")
    injector.fail_next("tool_call", fault)
    run.begin(run.open_call("bash"))

    following = await fake_agent.next_run()
    following.finish()
    await trio.testing.wait_all_tasks_blocked()

    assert following.turn.text == "second"
    assert (await outcomes(session))[second.input_id] == ["delivered"]
    assert await waiting_texts(session) == []


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_the_agent_of_a_lost_turn_gets_turn_over(
    sup: Supervisor, shielded_agent: FakeAgent, injector: FaultInjector, fault: CommitFault
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    injector.fail_next("tool_call", fault)
    run.begin(run.open_call("bash"))
    await wait_for_restarts(session)

    with pytest.raises(TurnOver):
        await run.do(run.turn.say("still here"))

    assert "still here" not in str(await records(session))


async def test_a_zombie_of_a_lost_turn_delays_the_next_turn(
    sup: Supervisor, shielded_agent: FakeAgent, injector: FaultInjector
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    await session.send("second")
    injector.fail_next("tool_call", "raises")
    run.begin(run.open_call("bash"))
    await wait_for_restarts(session)
    meanwhile = len(shielded_agent.runs)

    run.finish()
    second = await shielded_agent.next_run()

    assert meanwhile == 1
    assert second.turn.text == "second"


@pytest.mark.parametrize("fault", CRASHES)
async def test_a_turn_has_one_end_when_its_end_cannot_be_written(
    session: Session, run: AgentRun, injector: FaultInjector, fault: CommitFault
) -> None:
    injector.fail_next("turn_ended", fault)

    run.finish("done")
    await wait_for_restarts(session)

    [ended] = await records(session, "turn_ended")
    outcome = "completed" if fault == "raises late" else "lost"
    assert ended.body["outcome"] == outcome
    assert (await session.info()).phase is Phase.IDLE


@pytest.mark.parametrize("fault", CRASHES)
async def test_output_that_cannot_be_written_does_not_end_the_session(
    sup: Supervisor, injector: FaultInjector, fault: CommitFault
) -> None:
    session = await sup.create("scripted")
    injector.fail_next("agent_text", fault)

    first = await session.prompt("say one\nsleep 5\nsay two\nsleep 5")
    second = await session.prompt("say three")

    assert injector.done == 1
    assert first.outcome in ("lost", "completed")
    assert (second.outcome, second.text) == ("completed", "three")
    assert await records_are_consecutive(session)


async def test_a_stop_completes_when_its_end_cannot_be_written(
    session: Session, run: AgentRun, injector: FaultInjector
) -> None:
    injector.fail_next("session_stopped", "raises")

    await session.stop()

    info = await session.info()
    assert (info.phase, info.stop_reason) == (Phase.STOPPED, "user_cancelled")
    assert len(await records(session, "session_stopped")) == 1
