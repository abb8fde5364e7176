"""Interrupts: exactly what was named, and a report of what came of it."""

from __future__ import annotations

from typing import Literal

import pytest
import trio

from actors.testing import settle
from supervisor import (
    ConfigError,
    InputTooLarge,
    InterruptReport,
    QueueFull,
    Session,
    SessionNotActive,
    Supervisor,
    TurnScope,
)
from tests.support.fake_agents import (
    AgentRun,
    FakeAgent,
    outcomes,
    records,
)

# A turn ---------------------------------------------------------------------------------


async def test_an_interrupt_ends_the_turn(session: Session, run: AgentRun) -> None:
    report = await session.interrupt("turn", reason="changed my mind")

    (ended,) = await records(session, "turn_ended")
    assert run.over.is_set()
    assert (ended.body["outcome"], ended.body["stop_reason"]) == ("interrupted", "cancelled")
    assert report == InterruptReport("turn", matched=1, stopped=1, ladder_step="ask", seconds=0.0)
    assert (await session.info()).phase == "idle"


async def test_the_reason_is_on_record(session: Session, run: AgentRun) -> None:
    await session.interrupt("turn", reason="changed my mind")

    (interrupted,) = await records(session, "interrupted")
    assert interrupted.turn_id == run.turn.id
    assert interrupted.body["reason"] == "changed my mind"
    assert interrupted.body["step"] == "ask"


@pytest.mark.parametrize("scope", ["turn", "session", "named"])
async def test_a_turn_is_interrupted_by_id_as_current_or_with_its_session(
    session: Session, run: AgentRun, scope: str
) -> None:
    match scope:
        case "turn":
            report = await session.interrupt("turn")
        case "session":
            report = await session.interrupt("session")
        case _:
            report = await session.interrupt(TurnScope(run.turn.id))

    assert run.over.is_set()
    assert (report.matched, report.stopped) == (1, 1)
    assert report.scope == ("session" if scope == "session" else "turn")


async def test_output_before_the_interrupt_is_kept(session: Session, run: AgentRun) -> None:
    await run.do(run.turn.say("so far"))

    await session.interrupt()

    (said,) = await records(session, "agent_text")
    assert said.body["text"] == "so far"


async def test_the_tool_calls_of_a_turn_are_interrupted_with_it(
    session: Session, run: AgentRun
) -> None:
    one = await run.open_call("bash")
    two = await run.open_call("grep")

    await session.interrupt()

    ended = {r.body["call_id"]: r.body["outcome"] for r in await records(session, "tool_ended")}
    assert ended == {one.id: "interrupted", two.id: "interrupted"}


async def test_the_report_arrives_when_the_turn_is_over_with_its_duration(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    async def finish_later() -> None:
        await trio.sleep(3)
        shielded_run.finish("cleaned up")

    nursery.start_soon(finish_later)
    report = await shielded_session.interrupt()

    assert shielded_run.over.is_set()
    assert report == InterruptReport("turn", matched=1, stopped=1, ladder_step="ask", seconds=3.0)
    assert (await sup.list()).items[0].waiting_for is None


async def test_an_agent_that_fails_while_interrupted_counts_as_interrupted(
    session: Session, fake_agent: FakeAgent, run: AgentRun
) -> None:
    async def clean_up_badly() -> None:
        try:
            await trio.sleep_forever()
        finally:
            run.fail(RuntimeError("no luck"))

    run.begin(clean_up_badly())
    await settle()
    await session.interrupt()

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert await fake_agent.finish_all() == []


async def test_giving_up_the_wait_does_not_undo_the_interrupt(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    with trio.move_on_after(1) as patience:
        await shielded_session.interrupt()
    assert patience.cancelled_caught

    shielded_run.finish()
    await settle()

    assert (await shielded_session.info()).phase == "idle"
    assert len(await records(shielded_session, "interrupted")) == 1


async def test_two_interrupts_of_a_turn_act_once(
    shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    reports: list[InterruptReport] = []

    async def interrupt() -> None:
        reports.append(await shielded_session.interrupt())

    nursery.start_soon(interrupt)
    nursery.start_soon(interrupt)
    await settle()
    shielded_run.finish()
    await settle()

    assert [(report.matched, report.stopped) for report in reports] == [(1, 1), (1, 1)]
    assert len(await records(shielded_session, "interrupted")) == 1
    assert len(await records(shielded_session, "turn_ended")) == 1


async def test_the_rest_of_the_queue_runs_after_an_interrupt(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    await session.send("third")

    await session.interrupt()

    assert run.over.is_set()
    assert await fake_agent.finish_all() == ["second", "third"]


# Nothing to hit -------------------------------------------------------------------------


async def test_an_interrupt_of_an_idle_session_changes_nothing_and_reports_that(
    session: Session,
) -> None:
    before = await records(session)

    report = await session.interrupt("turn", queued="cancel")

    assert report == InterruptReport("turn")
    assert await records(session) == before


@pytest.mark.parametrize("scope", ["turn", "session", "tree"])
async def test_a_replacement_starts_a_turn_in_an_idle_session(
    session: Session, fake_agent: FakeAgent, scope: Literal["turn", "session", "tree"]
) -> None:
    report = await session.interrupt(scope, replace_with="instead", queued="cancel")

    assert report == InterruptReport(scope, input_id=report.input_id)
    assert (await fake_agent.next_run()).turn.input_id == report.input_id


async def test_a_replacement_wakes_a_suspended_session(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", suspend_after_seconds=60)
    await trio.sleep(61)

    await session.interrupt(replace_with="instead")

    assert (await fake_agent.next_run()).turn.text == "instead"


async def test_a_stopped_session_refuses_a_replacement(session: Session) -> None:
    await session.stop()

    with pytest.raises(SessionNotActive, match="is stopped") as refusal:
        await session.interrupt(replace_with="instead")

    assert refusal.value.hint == "send the text, which resumes it"


async def test_an_interrupt_of_a_turn_that_never_was_reports_unknown(
    session: Session, run: AgentRun
) -> None:
    for turn in ("turn_never", str(run.turn.input_id)):
        report = await session.interrupt(TurnScope(turn), replace_with="instead")

        assert report == InterruptReport("turn", unknown=1)
    assert not run.over.is_set()


async def test_an_interrupt_that_names_an_old_turn_never_hits_the_next(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    run.finish()
    second = await fake_agent.next_run()
    before = await records(session)

    report = await session.interrupt(
        TurnScope(run.turn.id), replace_with="instead", queued="cancel"
    )

    assert report == InterruptReport("turn", already_over=1, stale=1)
    assert await records(session) == before
    assert not second.over.is_set()


async def test_an_interrupt_of_an_ended_turn_reports_already_over(
    session: Session, run: AgentRun
) -> None:
    run.finish()
    await settle()
    before = await records(session)

    report = await session.interrupt(TurnScope(run.turn.id), replace_with="instead")

    assert report == InterruptReport("turn", already_over=1)
    assert await records(session) == before


async def test_an_interrupt_that_names_a_turn_of_another_session_hits_neither(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    other = await sup.create("fake")
    await other.send("other")
    others = await fake_agent.next_run()

    report = await session.interrupt(TurnScope(others.turn.id))

    assert report == InterruptReport("turn", unknown=1)
    assert not run.over.is_set()
    assert not others.over.is_set()


async def test_an_unknown_scope_matches_nothing(session: Session, run: AgentRun) -> None:
    with pytest.raises(ConfigError, match="everything") as refusal:
        await session.interrupt("everything")  # type: ignore[arg-type]

    await settle()
    assert "ToolCall(id)" in refusal.value.hint
    assert not run.over.is_set()


@pytest.mark.parametrize("phase", ["suspended", "stopped"])
async def test_an_interrupt_does_not_wake_a_suspended_session(sup: Supervisor, phase: str) -> None:
    session = await sup.create("fake", suspend_after_seconds=60)
    if phase == "stopped":
        await session.stop()
    await trio.sleep(61)
    before = await records(session)

    assert await session.interrupt() == InterruptReport("turn")

    assert (await session.info()).phase == phase
    assert await records(session) == before


async def test_an_interrupt_reaches_no_other_session(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    other = await sup.create("fake")
    await other.send("other")
    others = await fake_agent.next_run()

    await session.interrupt("session")
    await settle()

    assert run.over.is_set()
    assert not others.over.is_set()
    assert (await other.info()).turn_id == others.turn.id


# Replacing ------------------------------------------------------------------------------


async def test_a_replacement_runs_next_and_the_queue_is_kept(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")

    report = await session.interrupt(replace_with="instead")

    assert (report.matched, report.stopped) == (1, 1)
    assert run.over.is_set()
    assert await fake_agent.finish_all() == ["instead", "second"]


async def test_sending_with_interrupt_is_interrupting_with_a_replacement(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")

    await session.send("instead", when_busy="interrupt")

    assert await fake_agent.finish_all() == ["instead", "second"]
    assert run.over.is_set()


@pytest.mark.parametrize("way", ["send", "interrupt"])
async def test_the_new_text_is_durable_before_the_turn_is_interrupted(
    session: Session, run: AgentRun, way: str
) -> None:
    if way == "send":
        await session.send("instead", when_busy="interrupt")
    else:
        await session.interrupt(replace_with="instead")
    await settle()

    kinds = [r.kind for r in await records(session, "input_accepted", "interrupted", "turn_ended")]
    assert run.over.is_set()
    assert kinds == ["input_accepted", "input_accepted", "interrupted", "turn_ended"]


async def test_cancelling_the_queue_raises_the_generation_and_spares_the_replacement(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    second = await session.send("second")
    steered = await session.steer("shorter")

    await session.interrupt(replace_with="instead", queued="cancel")

    replacement = (await fake_agent.next_run()).turn
    assert replacement.text == "instead"
    assert await outcomes(session) == {
        run.turn.input_id: ["delivered"],
        second.input_id: ["cancelled"],
        steered.input_id: ["cancelled"],
        replacement.input_id: ["delivered"],
    }
    accepted = {r.body["input_id"]: r for r in await records(session, "input_accepted")}
    assert accepted[second.input_id].body["generation"] == 0
    assert accepted[replacement.input_id].body["generation"] == 1
    assert (await session.info()).generation == 1
    assert await fake_agent.finish_all() == []


async def test_later_inputs_are_of_the_new_generation(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    assert (await session.send("second")).generation == 0
    await session.interrupt(queued="cancel")

    receipt = await session.send("third")

    assert receipt.generation == 1
    assert run.over.is_set()
    assert await fake_agent.finish_all() == ["third"]


async def test_the_queue_is_cancelled_in_the_commit_that_accepts_the_replacement(
    shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    await shielded_session.send("second")
    seen = (await shielded_session.info()).last_seq
    nursery.start_soon(lambda: shielded_session.interrupt(replace_with="instead", queued="cancel"))
    await settle()

    assert [record.kind for record in await records(shielded_session) if record.seq > seen] == [
        "generation_raised",
        "input_settled",
        "input_accepted",
        "interrupted",
    ]
    assert not shielded_run.over.is_set()


async def test_a_replacement_can_itself_be_replaced_before_it_runs(
    shielded_session: Session,
    shielded_run: AgentRun,
    shielded_agent: FakeAgent,
    nursery: trio.Nursery,
) -> None:
    nursery.start_soon(lambda: shielded_session.interrupt(replace_with="one"))
    await settle()
    nursery.start_soon(lambda: shielded_session.interrupt(replace_with="two", queued="cancel"))
    await settle()
    shielded_run.finish()

    assert await shielded_agent.finish_all() == ["two"]


@pytest.mark.parametrize("way", ["too large", "queue full"])
async def test_a_refused_replacement_keeps_the_turn(
    sup: Supervisor, fake_agent: FakeAgent, way: str
) -> None:
    session = await sup.create("fake", max_text_bytes=10, queue_cap=1)
    await session.send("first")
    run = await fake_agent.next_run()
    await session.send("second")
    before = await records(session)

    with pytest.raises(InputTooLarge if way == "too large" else QueueFull):
        await session.interrupt(replace_with="instead" * (2 if way == "too large" else 1))

    await settle()
    assert not run.over.is_set()
    assert await records(session) == before


async def test_a_replacement_that_cancels_a_full_queue_has_room(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", queue_cap=1)
    await session.send("first")
    await fake_agent.next_run()
    await session.send("second")

    await session.interrupt(replace_with="instead", queued="cancel")

    assert await fake_agent.finish_all() == ["instead"]
