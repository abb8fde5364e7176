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
    CRASHES,
    TROUBLES,
    Saboteur,
    Trouble,
    numbers_are_whole,
    wait_for_the_end,
)
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records, waiting_texts


@pytest.fixture
def saboteur(sup: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Saboteur:
    return Saboteur(sup, monkeypatch)


@pytest.mark.parametrize("trouble", CRASHES)
async def test_a_turn_with_a_failed_commit_is_closed_as_lost_once(
    session: Session, run: AgentRun, saboteur: Saboteur, trouble: Trouble
) -> None:
    before = await session.info()
    saboteur.spoil("tool_call", trouble)

    action = run.begin(run.open_call("bash"))
    await wait_for_the_end(session)

    [ended] = await records(session, "turn_ended")
    info = await session.info()
    assert (ended.turn_id, ended.body["outcome"]) == (run.turn.id, "lost")
    assert (info.phase, info.turn_id) == (Phase.IDLE, None)
    assert info.epoch > before.epoch
    assert run.over.is_set()
    assert action.done.is_set()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_open_calls_and_requests_of_a_lost_turn_are_closed(
    sup: Supervisor, session: Session, run: AgentRun, saboteur: Saboteur, trouble: Trouble
) -> None:
    await run.open_call("first")
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()
    saboteur.spoil("session_changed", trouble)

    await session.set(title="New")
    await wait_for_the_end(session)

    [call] = await records(session, "tool_ended")
    [answer] = await records(session, "permission_answered")
    assert call.body["outcome"] == "interrupted"
    assert answer.body["decision"] == "cancelled"
    assert await sup.permissions() == ()
    assert (await session.info()).title == "New"


@pytest.mark.parametrize("trouble", CRASHES)
async def test_prompt_returns_lost_when_the_turn_is_lost(
    session: Session, fake_agent: FakeAgent, saboteur: Saboteur, trouble: Trouble
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("first"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt)
        run = await fake_agent.next_run()
        saboteur.spoil("tool_call", trouble)
        run.begin(run.open_call("bash"))

    assert [result.outcome for result in results] == ["lost"]


@pytest.mark.parametrize("trouble", CRASHES)
async def test_the_queue_continues_after_a_lost_turn(
    session: Session, run: AgentRun, fake_agent: FakeAgent, saboteur: Saboteur, trouble: Trouble
) -> None:
    second = await session.send("second")
    saboteur.spoil("tool_call", trouble)
    run.begin(run.open_call("bash"))

    following = await fake_agent.next_run()
    following.finish()
    await trio.testing.wait_all_tasks_blocked()

    assert following.turn.text == "second"
    assert (await outcomes(session))[second.input_id] == ["delivered"]
    assert await waiting_texts(session) == []


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_the_agent_of_a_lost_turn_gets_turn_over(
    sup: Supervisor, shielded_agent: FakeAgent, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    saboteur.spoil("tool_call", trouble)
    run.begin(run.open_call("bash"))
    await wait_for_the_end(session)

    with pytest.raises(TurnOver):
        await run.do(run.turn.say("still here"))

    assert "still here" not in str(await records(session))


async def test_a_zombie_of_a_lost_turn_delays_the_next_turn(
    sup: Supervisor, shielded_agent: FakeAgent, saboteur: Saboteur
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    await session.send("second")
    saboteur.spoil("tool_call", "raises")
    run.begin(run.open_call("bash"))
    await wait_for_the_end(session)
    meanwhile = len(shielded_agent.runs)

    run.finish()
    second = await shielded_agent.next_run()

    assert meanwhile == 1
    assert second.turn.text == "second"


@pytest.mark.parametrize("trouble", CRASHES)
async def test_a_turn_has_one_end_when_its_end_cannot_be_written(
    session: Session, run: AgentRun, saboteur: Saboteur, trouble: Trouble
) -> None:
    saboteur.spoil("turn_ended", trouble)

    run.finish("done")
    await wait_for_the_end(session)

    [ended] = await records(session, "turn_ended")
    outcome = "completed" if trouble == "raises late" else "lost"
    assert ended.body["outcome"] == outcome
    assert (await session.info()).phase is Phase.IDLE


@pytest.mark.parametrize("trouble", CRASHES)
async def test_output_that_cannot_be_written_does_not_end_the_session(
    sup: Supervisor, saboteur: Saboteur, trouble: Trouble
) -> None:
    session = await sup.create("scripted")
    saboteur.spoil("agent_text", trouble)

    first = await session.prompt("say one\nsleep 5\nsay two\nsleep 5")
    second = await session.prompt("say three")

    assert saboteur.done == 1
    assert first.outcome in ("lost", "completed")
    assert (second.outcome, second.text) == ("completed", "three")
    assert await numbers_are_whole(session)


async def test_a_stop_completes_when_its_end_cannot_be_written(
    session: Session, run: AgentRun, saboteur: Saboteur
) -> None:
    saboteur.spoil("session_stopped", "raises")

    await session.stop()

    info = await session.info()
    assert (info.phase, info.stop_reason) == (Phase.STOPPED, "user_cancelled")
    assert len(await records(session, "session_stopped")) == 1
