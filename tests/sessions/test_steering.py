"""Steering: guidance for the turn that is running."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    InputTooLarge,
    NotRunning,
    QueueFull,
    Record,
    Session,
    Supervisor,
    TurnOver,
)
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records, waiting_texts


def shape(record: Record) -> tuple[str, object]:
    """A record's kind, and the one word of it that these tests look at."""
    word = {"input_settled": "outcome", "steered": "how", "user_text": "text"}[record.kind]
    return record.kind, record.body[word]


async def test_steering_stays_staged_until_the_agent_takes_it(
    session: Session, run: AgentRun
) -> None:
    receipt = await session.steer("shorter")

    (waiting,) = await session.inputs()
    assert (receipt.status, receipt.turn_id) == ("staged", run.turn.id)
    assert (waiting.id, waiting.text, waiting.status) == (receipt.input_id, "shorter", "staged")
    assert await outcomes(session) == {run.turn.input_id: ["delivered"], receipt.input_id: []}


async def test_send_with_when_busy_steer_steers(session: Session, run: AgentRun) -> None:
    receipt = await session.send("shorter", when_busy="steer")

    assert (receipt.status, receipt.turn_id) == ("staged", run.turn.id)
    assert run.turn.steering() == ["shorter"]


async def test_steering_is_settled_as_steered_when_handed_out(
    session: Session, run: AgentRun
) -> None:
    receipt = await session.steer("shorter")

    assert run.turn.steering() == ["shorter"]

    await settle()
    assert await session.inputs() == []
    assert (await outcomes(session))[receipt.input_id] == ["steered"]


async def test_feed_and_transcript_mark_steered_text(session: Session, run: AgentRun) -> None:
    seen = (await session.info()).last_seq
    await session.steer("shorter")
    run.turn.steering()
    await settle()

    news = [r for r in await records(session) if r.seq > seen + 2]
    assert [shape(record) for record in news] == [
        ("input_settled", "steered"),
        ("steered", "boundary"),
        ("user_text", "shorter"),
    ]
    assert {record.turn_id for record in news} == {run.turn.id}
    assert [(m.role, m.text, m.steered) for m in await session.transcript()] == [
        ("user", "first", False),
        ("user", "shorter", True),
    ]


async def test_several_are_handed_over_together_and_in_order(
    session: Session, run: AgentRun
) -> None:
    for text in "abc":
        await session.steer(text)

    assert run.turn.steering() == ["a", "b", "c"]

    await settle()
    assert list((await outcomes(session)).values())[1:] == [["steered"]] * 3
    said = [record.body["text"] for record in await records(session, "user_text")]
    assert said == ["first", "a", "b", "c"]


async def test_each_is_handed_out_once(session: Session, run: AgentRun) -> None:
    await session.steer("a")
    assert run.turn.steering() == ["a"]
    await session.steer("b")

    assert run.turn.steering() == ["b"]
    assert run.turn.steering() == []


async def test_a_turn_that_was_not_steered_has_nothing_to_take(run: AgentRun) -> None:
    assert run.turn.steering() == []


async def test_steering_can_be_taken_at_the_end_of_a_tool_call(
    session: Session, run: AgentRun
) -> None:
    call = await run.open_call("bash")
    await session.steer("shorter")

    await call.close()

    assert run.turn.steering() == ["shorter"]
    (ended,) = await records(session, "tool_ended")
    assert ended.body["outcome"] == "completed"


async def test_steering_reaches_only_its_session(
    sup: Supervisor, fake_agent: FakeAgent, run: AgentRun
) -> None:
    other = await sup.create("fake")
    await other.send("other")
    others = await fake_agent.next_run()

    await other.steer("shorter")

    assert run.turn.steering() == []
    assert others.turn.steering() == ["shorter"]


# What is never taken ---------------------------------------------------------------------------


async def test_steering_not_taken_by_the_turn_becomes_a_turn(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    receipt = await session.steer("shorter")
    run.finish()

    second = await fake_agent.next_run()
    assert second.turn.text == "shorter"
    assert second.turn.input_id == receipt.input_id
    assert (await outcomes(session))[receipt.input_id] == ["delivered"]


async def test_steering_not_taken_is_queued_by_its_accepted_number(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("a")
    await session.steer("b")
    await session.send("c")
    await session.steer("d")
    run.finish()

    assert await fake_agent.finish_all() == ["a", "b", "c", "d"]


async def test_steering_not_taken_keeps_its_position_after_an_interrupt(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.steer("a")
    await session.send("b")

    await session.interrupt()

    assert run.over.is_set()
    assert await fake_agent.finish_all() == ["a", "b"]


async def test_the_feed_reports_steering_that_returned_to_the_queue(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()
    receipt = await session.steer("shorter")

    await session.interrupt()

    (waiting,) = await session.inputs()
    last = (await records(session, "input_changed"))[-1]
    assert (waiting.id, waiting.status) == (receipt.input_id, "queued")
    assert last.body["inputs"] == {receipt.input_id: {"status": "queued"}}


async def test_taken_steering_is_not_sent_again_when_the_turn_fails(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    receipt = await session.steer("shorter")
    run.turn.steering()
    run.fail(RuntimeError("no luck"))

    assert await fake_agent.finish_all() == []
    assert (await outcomes(session))[receipt.input_id] == ["steered"]


async def test_steering_that_expires_while_staged_never_becomes_a_turn(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    receipt = await session.steer("shorter", ttl_seconds=10)
    await trio.sleep(20)
    run.finish()

    assert await fake_agent.finish_all() == []
    assert (await outcomes(session))[receipt.input_id] == ["expired"]


async def test_steering_cancelled_with_the_queue_is_not_handed_out(
    sup: Supervisor, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    receipt = await session.steer("shorter")
    nursery.start_soon(lambda: session.interrupt(queued="cancel"))
    await settle()
    assert (await outcomes(session))[receipt.input_id] == ["cancelled"]

    assert run.turn.steering() == []


# When there is nothing to steer ----------------------------------------------------------------


async def test_steering_an_idle_session_is_an_error(session: Session) -> None:
    before = await records(session)

    with pytest.raises(NotRunning) as refusal:
        await session.steer("shorter")

    assert "send it" in refusal.value.hint
    assert await records(session) == before


@pytest.mark.parametrize("phase", ["suspended", "stopped"])
async def test_steering_does_not_wake_a_suspended_session(sup: Supervisor, phase: str) -> None:
    session = await sup.create("fake", suspend_after_seconds=60)
    if phase == "stopped":
        await session.stop()
    await trio.sleep(61)

    with pytest.raises(NotRunning):
        await session.steer("shorter")

    assert (await session.info()).phase == phase


async def test_sending_guidance_to_an_idle_session_starts_a_turn(
    session: Session, fake_agent: FakeAgent
) -> None:
    receipt = await session.send("shorter", when_busy="steer")

    run = await fake_agent.next_run()
    assert receipt.status == "started"
    assert run.turn.text == "shorter"
    assert run.turn.steering() == []


async def test_steering_is_refused_while_the_turn_is_being_interrupted(
    sup: Supervisor, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    nursery.start_soon(session.interrupt)
    await settle()
    assert (await session.info()).phase == "interrupting"

    with pytest.raises(NotRunning):
        await session.steer("shorter")

    assert run.turn.steering() == []


async def test_sent_guidance_is_queued_while_the_turn_is_being_interrupted(
    sup: Supervisor, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    nursery.start_soon(session.interrupt)
    await settle()

    receipt = await session.send("shorter", when_busy="steer")

    assert (receipt.status, receipt.position, receipt.turn_id) == ("queued", 0, None)
    assert run.turn.steering() == []
    run.finish()
    assert await shielded_agent.finish_all() == ["shorter"]


async def test_a_turn_that_is_over_hands_out_nothing(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    run.finish()
    await session.send("second")
    await fake_agent.next_run()
    await session.steer("shorter")

    with pytest.raises(TurnOver):
        run.turn.steering()

    assert await waiting_texts(session) == ["shorter"]


# Bounds and keys -------------------------------------------------------------------------------


async def test_steering_with_the_same_key_is_handed_out_once(
    session: Session, run: AgentRun
) -> None:
    first = await session.steer("shorter", idempotency_key="k")
    again = await session.steer("shorter", idempotency_key="k")

    assert again == first
    assert run.turn.steering() == ["shorter"]


async def test_text_that_the_queue_would_refuse_is_refused_as_steering(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", queue_cap=1, max_text_bytes=5)
    await session.send("first")
    await fake_agent.next_run()

    with pytest.raises(InputTooLarge):
        await session.steer("too long")
    await session.steer("short")
    with pytest.raises(QueueFull):
        await session.steer("more")

    assert await waiting_texts(session) == ["short"]
