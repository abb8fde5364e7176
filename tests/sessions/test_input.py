"""Input while busy: modes, receipts, one outcome for each, and their order."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    InputRefused,
    Receipt,
    Session,
    Supervisor,
    TurnResult,
    Usage,
)
from supervisor.core.state import WhenBusy
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records

ALL_MODES: tuple[WhenBusy, ...] = ("queue", "steer", "interrupt", "reject")


# Receipts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ALL_MODES)
async def test_the_mode_does_not_matter_to_an_idle_session(
    session: Session, fake_agent: FakeAgent, mode: WhenBusy
) -> None:
    receipt = await session.send("hello", when_busy=mode)

    run = await fake_agent.next_run()
    assert receipt.status == "started"
    assert receipt.turn_id == run.turn.id
    assert run.turn.text == "hello"


async def test_the_receipt_of_a_started_input_has_no_position(
    session: Session, fake_agent: FakeAgent
) -> None:
    receipt = await session.send("hello")

    turn = (await fake_agent.next_run()).turn
    assert receipt == Receipt(
        input_id=turn.input_id,
        session_id=session.id,
        status="started",
        position=None,
        turn_id=turn.id,
        previous_turn_id=None,
        generation=0,
        cancelled=(),
    )


async def test_the_receipt_of_a_queued_input_has_its_position(
    session: Session, run: AgentRun
) -> None:
    second = await session.send("second")
    third = await session.send("third")

    assert (second.status, second.position, second.turn_id) == ("queued", 0, None)
    assert (third.status, third.position, third.turn_id) == ("queued", 1, None)
    assert second.input_id != third.input_id
    assert not run.over.is_set()


async def test_a_receipt_for_an_interrupt_names_the_turn_that_has_to_go(
    session: Session, run: AgentRun
) -> None:
    receipt = await session.send("instead", when_busy="interrupt")

    assert receipt.status == "interrupting"
    assert receipt.previous_turn_id == run.turn.id
    assert receipt.turn_id is None


async def test_a_rejected_input_was_never_queued(session: Session, run: AgentRun) -> None:
    before = await records(session)

    with pytest.raises(InputRefused, match="turn is running") as refusal:
        await session.send("go away", when_busy="reject")

    assert refusal.value.code == "input_refused"
    assert "when_busy" in refusal.value.hint
    assert await records(session) == before
    assert await session.inputs() == []
    assert not run.over.is_set()


async def test_an_input_is_durable_before_its_receipt(session: Session, run: AgentRun) -> None:
    receipt = await session.send("second")

    last = (await records(session, "input_accepted"))[-1]
    assert last.body["input_id"] == receipt.input_id
    assert last.body["text"] == "second"
    assert last.body["when_busy"] == "queue"
    assert not run.over.is_set()


async def test_the_users_text_is_durable_before_the_agent_is_called(
    session: Session, run: AgentRun
) -> None:
    (said,) = await records(session, "user_text")

    assert said.body["text"] == "first"
    assert said.turn_id == run.turn.id


async def test_text_is_stored_unchanged(session: Session, fake_agent: FakeAgent) -> None:
    text = "  two lines,\r\n\tand a snowman: \N{SNOWMAN}\0  "

    await session.send(text)

    run = await fake_agent.next_run()
    (said,) = await records(session, "user_text")
    assert run.turn.text == text
    assert said.body["text"] == text


async def test_attachments_stay_with_a_queued_input(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("look", attachments=[{"path": "a.png"}, {"path": "b.png"}])
    run.finish()

    assert (await fake_agent.next_run()).turn.attachments == ({"path": "a.png"}, {"path": "b.png"})


async def test_a_turn_continues_when_its_caller_is_cancelled(
    session: Session, fake_agent: FakeAgent
) -> None:
    with trio.move_on_after(1):
        await session.prompt("hello")

    run = await fake_agent.next_run()
    run.finish("done all the same")
    await settle()
    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "completed"
    assert ended.body["text"] == "done all the same"


async def test_a_session_is_usable_after_a_failed_turn(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("again")
    run.fail(RuntimeError("no luck"))

    second = await fake_agent.next_run()
    second.finish("luck")
    await settle()
    first, last = await records(session, "turn_ended")
    assert (first.body["outcome"], first.body["error"]) == ("failed", "RuntimeError: no luck")
    assert (last.body["outcome"], last.body["text"]) == ("completed", "luck")


@pytest.mark.parametrize(
    ("said", "returned", "text"),
    [("said", "done", "done"), ("said", None, "said"), ("", "done", "done")],
)
async def test_the_text_of_a_turn_is_returned_text_or_agent_text(  # noqa: PLR0917 - three fixtures and a row
    session: Session,
    nursery: trio.Nursery,
    fake_agent: FakeAgent,
    said: str,
    returned: str | None,
    text: str,
) -> None:
    results: list[TurnResult] = []

    async def prompt() -> None:
        results.append(await session.prompt("hello"))

    nursery.start_soon(prompt)
    run = await fake_agent.next_run()
    await run.do(run.turn.say(said))
    run.turn.usage(input_tokens=3, output_tokens=4, cost=0.5)
    run.finish(returned)
    await settle()

    assert results == [
        TurnResult(run.turn.id, text, "completed", "end_turn", Usage(3, 4, 0.5), None)
    ]


# One outcome each ------------------------------------------------------------------------------


async def test_every_input_has_exactly_one_outcome(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    steered = await session.steer("shorter")
    run.turn.steering()
    cancelled = await session.send("never mind")
    await session.cancel_input(cancelled.input_id)
    expired = await session.send("quick", ttl_seconds=1)
    await trio.sleep(2)
    delivered = await session.send("next")
    run.finish()
    (await fake_agent.next_run()).finish()
    await settle()

    assert await outcomes(session) == {
        run.turn.input_id: ["delivered"],
        steered.input_id: ["steered"],
        cancelled.input_id: ["cancelled"],
        expired.input_id: ["expired"],
        delivered.input_id: ["delivered"],
    }


async def test_an_input_stays_delivered_when_its_turn_fails(
    session: Session, run: AgentRun
) -> None:
    run.fail(RuntimeError("no luck"))
    await settle()

    assert await outcomes(session) == {run.turn.input_id: ["delivered"]}


async def test_an_input_stays_delivered_when_its_agent_crashes(sup: Supervisor) -> None:
    session = await sup.create("scripted")

    result = await session.prompt("crash")

    (found,) = (await outcomes(session)).values()
    assert result.outcome != "completed"
    assert found == ["delivered"]


async def test_a_stop_by_a_user_cancels_queued_inputs(session: Session, run: AgentRun) -> None:
    waiting = await session.send("second")
    staged = await session.steer("shorter")

    await session.stop()

    assert await outcomes(session) == {
        run.turn.input_id: ["delivered"],
        waiting.input_id: ["cancelled"],
        staged.input_id: ["cancelled"],
    }
    assert await session.inputs() == []


async def test_a_prompt_raises_when_its_input_is_cancelled(
    session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    async def prompt() -> None:
        with pytest.raises(InputRefused, match="cancelled"):
            await session.prompt("second")
        told.set()

    told = trio.Event()
    nursery.start_soon(prompt)
    await settle()
    (waiting,) = await session.inputs()
    await session.cancel_input(waiting.id)

    await told.wait()
    assert not run.over.is_set()


async def test_a_prompt_that_is_steered_in_gets_the_result_of_that_turn(
    session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    results = []

    async def prompt() -> None:
        results.append(await session.prompt("shorter", when_busy="steer"))

    nursery.start_soon(prompt)
    await settle()
    assert run.turn.steering() == ["shorter"]
    run.finish("short")
    await settle()

    assert [(result.turn_id, result.text) for result in results] == [(run.turn.id, "short")]


# Order -----------------------------------------------------------------------------------------


async def test_the_queue_runs_in_the_order_of_acceptance(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    for text in "abc":
        await session.send(text)
    run.finish()

    assert await fake_agent.finish_all() == ["a", "b", "c"]


async def test_at_most_one_turn_runs_at_any_instant(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    await settle()
    assert fake_agent.runs == [run]

    run.finish()
    await fake_agent.next_run()

    assert run.over.is_set()
    assert len(fake_agent.runs) == 2


@pytest.mark.parametrize("mode", ["queue", "steer", "reject"])
async def test_a_new_input_never_overtakes_the_queue_at_a_turn_end(
    session: Session, run: AgentRun, fake_agent: FakeAgent, nursery: trio.Nursery, mode: WhenBusy
) -> None:
    async def send_fresh() -> None:
        try:
            await session.send("fresh", when_busy=mode)
        except InputRefused:
            assert mode == "reject"

    await session.send("waiting")
    run.finish()
    for _ in range(5):
        nursery.start_soon(send_fresh)
        await trio.lowlevel.checkpoint()

    played = await fake_agent.finish_all()
    assert played[0] == "waiting"
    assert "fresh" in played or mode == "reject"


async def test_replacements_run_before_queued_inputs(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    await session.send("a")
    await session.send("b", when_busy="steer")
    await session.send("one", when_busy="interrupt")
    await session.send("c", when_busy="steer")
    await session.send("two", when_busy="interrupt")
    await session.send("d")
    run.finish()

    assert await shielded_agent.finish_all() == ["one", "two", "a", "b", "c", "d"]


async def test_inputs_are_listed_in_the_order_of_execution(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()
    await session.send("a")
    await session.send("b")
    receipt = await session.send("instead", when_busy="interrupt")

    listed = await session.inputs()
    assert [waiting.text for waiting in listed] == ["instead", "a", "b"]
    assert [waiting.position for waiting in listed] == [0, 1, 2]
    assert receipt.position == 0
