"""The queue: what can be done to what waits, its bounds, and what expires or is held in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

from actors.testing import settle
from supervisor import (
    InputRefused,
    InputTooLarge,
    NotRunning,
    QueueFull,
    Restart,
    Session,
    SessionNotActive,
    Supervisor,
    SupervisorError,
)
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records, waiting_texts
from tests.support.session_states import texts_of

# What waits ------------------------------------------------------------------------------------


async def test_queued_inputs_are_listed_with_all_fields(session: Session, run: AgentRun) -> None:
    await trio.sleep(5)
    receipt = await session.send("second", ttl_seconds=60)
    await trio.sleep(5)

    (waiting,) = await session.inputs()
    (accepted,) = (await records(session, "input_accepted"))[1:]
    assert attrs.asdict(waiting) == {
        "id": receipt.input_id,
        "text": "second",
        "status": "queued",
        "position": 0,
        "accepted_at": accepted.at,
        "expires_at": accepted.at + 60,
    }
    assert (await session.info()).queued == 1
    assert not run.over.is_set()


async def test_a_queued_input_can_be_edited(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    receipt = await session.send("secnod")
    await session.send("third")

    await session.edit_input(receipt.input_id, "second")

    assert await waiting_texts(session) == ["second", "third"]
    run.finish()
    assert await fake_agent.finish_all() == ["second", "third"]
    assert [r.body["text"] for r in await records(session, "user_text")][1] == "second"


@pytest.mark.parametrize(
    ("text", "error"), [("  ", InputRefused), ("x" * 65_537, InputTooLarge)], ids=["blank", "large"]
)
async def test_an_edit_is_checked_as_new_text_is(
    session: Session, run: AgentRun, text: str, error: type[SupervisorError]
) -> None:
    receipt = await session.send("second")

    with pytest.raises(error):
        await session.edit_input(receipt.input_id, text)

    assert await waiting_texts(session) == ["second"]
    assert not run.over.is_set()


@pytest.mark.parametrize(
    ("moved", "position", "order"),
    [("c", 0, "cabd"), ("a", 2, "bcad"), ("b", 1, "abcd"), ("a", 99, "bcda")],
)
async def test_a_queued_input_can_be_moved(  # noqa: PLR0917 - three fixtures and a row
    session: Session, run: AgentRun, fake_agent: FakeAgent, moved: str, position: int, order: str
) -> None:
    ids = {text: (await session.send(text)).input_id for text in "abcd"}

    await session.move_input(ids[moved], position)

    assert await waiting_texts(session) == list(order)
    run.finish()
    assert await fake_agent.finish_all() == list(order)


async def test_nothing_can_be_moved_before_a_replacement(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()
    await session.send("a")
    last = await session.send("b")
    await session.send("instead", when_busy="interrupt")

    await session.move_input(last.input_id, 0)

    assert await waiting_texts(session) == ["instead", "b", "a"]


async def test_a_queued_input_can_be_cancelled(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    second = await session.send("second")
    await session.send("third")

    await session.cancel_input(second.input_id)

    assert await waiting_texts(session) == ["third"]
    assert (await outcomes(session))[second.input_id] == ["cancelled"]
    run.finish()
    assert await fake_agent.finish_all() == ["third"]


async def test_a_queued_input_can_be_promoted_to_steering(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    await session.send("second")
    third = await session.send("third")

    receipt = await session.promote_input(third.input_id)

    assert (receipt.status, receipt.turn_id) == ("staged", run.turn.id)
    assert run.turn.steering() == ["third"]
    run.finish()
    assert await fake_agent.finish_all() == ["second"]
    assert (await outcomes(session))[third.input_id] == ["steered"]


async def test_a_promoted_input_not_taken_keeps_its_position(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    second = await session.send("second")
    await session.send("third")
    await session.promote_input(second.input_id)

    run.finish()

    assert await fake_agent.finish_all() == ["second", "third"]


async def test_promoting_an_input_without_a_running_turn_is_refused(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    await shielded_agent.next_run()
    waiting = await session.send("second")
    await session.interrupt()

    with pytest.raises(NotRunning):
        await session.promote_input(waiting.input_id)

    assert await waiting_texts(session) == ["second"]


CHANGES: dict[str, Callable[[Session, str], Awaitable[object]]] = {
    "edit": lambda session, target: session.edit_input(target, "other"),
    "move": lambda session, target: session.move_input(target, 0),
    "promote": lambda session, target: session.promote_input(target),
    "cancel": lambda session, target: session.cancel_input(target),
}


@pytest.mark.parametrize("action", CHANGES)
@pytest.mark.parametrize("which", ["unknown", "delivered", "staged", "cancelled"])
async def test_only_queued_inputs_can_be_changed(
    session: Session, run: AgentRun, action: str, which: str
) -> None:
    cancelled = (await session.send("second")).input_id
    await session.cancel_input(cancelled)
    staged = (await session.steer("shorter")).input_id
    names = {"unknown": "in_nobody", "delivered": run.turn.input_id}
    target = (names | {"staged": staged, "cancelled": cancelled})[which]
    before = await records(session)

    with pytest.raises(InputRefused):
        await CHANGES[action](session, target)

    assert await records(session) == before


# Bounds ----------------------------------------------------------------------------------------


async def test_the_queue_holds_ten_and_refuses_the_eleventh(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    for number in range(10):
        await session.send(str(number))
    before = await records(session)

    with pytest.raises(QueueFull, match="10 of 10") as refusal:
        await session.send("one too many")

    assert "queue_cap" in refusal.value.hint
    assert await records(session) == before
    run.finish()
    assert await fake_agent.finish_all() == [str(number) for number in range(10)]


async def test_a_session_may_have_another_cap(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", queue_cap=1)
    await session.send("first")
    await fake_agent.next_run()
    await session.send("second")

    with pytest.raises(QueueFull):
        await session.send("third")


async def test_the_start_of_a_turn_frees_a_queue_position(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", queue_cap=1)
    await session.send("first")
    run = await fake_agent.next_run()
    await session.send("second")
    run.finish()
    await fake_agent.next_run()

    assert (await session.send("third")).status == "queued"


async def test_text_is_measured_in_bytes(session: Session, fake_agent: FakeAgent) -> None:
    snowmen = "\N{SNOWMAN}" * (65_536 // 3)

    with pytest.raises(InputTooLarge, match="65538 bytes of 65536"):
        await session.send(snowmen + "\N{SNOWMAN}")
    await session.send(snowmen + "x")

    assert (await fake_agent.next_run()).turn.text == snowmen + "x"


# Expiry ----------------------------------------------------------------------------------------


async def test_an_input_expires_when_its_time_is_over(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    receipt = await session.send("second", ttl_seconds=10)
    await trio.sleep(9)
    assert await waiting_texts(session) == ["second"]

    await trio.sleep(2)

    assert await session.inputs() == []
    assert (await outcomes(session))[receipt.input_id] == ["expired"]
    run.finish()
    assert await fake_agent.finish_all() == []


async def test_each_input_expires_at_its_own_time(session: Session, run: AgentRun) -> None:
    await session.send("soon", ttl_seconds=10)
    await session.send("late", ttl_seconds=100)
    await session.send("sooner", ttl_seconds=5)

    await trio.sleep(6)
    assert await waiting_texts(session) == ["soon", "late"]
    await trio.sleep(5)
    assert await waiting_texts(session) == ["late"]
    await trio.sleep(90)
    assert await waiting_texts(session) == []
    assert not run.over.is_set()


async def test_an_input_that_began_in_time_does_not_expire(
    session: Session, fake_agent: FakeAgent
) -> None:
    receipt = await session.send("hello", ttl_seconds=10)
    run = await fake_agent.next_run()
    await trio.sleep(20)

    assert not run.over.is_set()
    assert (await outcomes(session))[receipt.input_id] == ["delivered"]


async def test_a_prompt_raises_when_its_input_expires(session: Session, run: AgentRun) -> None:
    with pytest.raises(InputRefused, match="expired"):
        await session.prompt("second", ttl_seconds=10)

    assert not run.over.is_set()


async def test_inputs_held_by_a_failed_session_expire(
    sup: Supervisor,
) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))
    await session.send("sleep 1\ncrash")
    held = await session.send("say late", ttl_seconds=10)
    await session.wait_stopped()
    await trio.sleep(60)

    await session.resume()
    await settle()

    assert (await outcomes(session))[held.input_id] == ["expired"]


# A queue that is held --------------------------------------------------------------------------


async def test_a_held_queue_runs_first_and_in_order(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))
    await session.send("sleep 1\ncrash")
    await session.send("say one")
    await session.send("say two")
    await session.wait_stopped()

    await session.prompt("say three")

    said = [record.body["text"] for record in await records(session, "agent_text")]
    assert said == ["one", "two", "three"]


async def test_send_with_if_stopped_reject_does_not_resume(session: Session) -> None:
    await session.stop()
    before = await records(session)

    with pytest.raises(SessionNotActive, match="stopped"):
        await session.send("hello", if_stopped="reject")

    assert await records(session) == before


# Inputs of stopped sessions  -------------------------------------------------------------------


async def hold_an_input(session: Session, **how: Any) -> str:  # noqa: ANN401
    """Stop the session by a crash of its agent with an input queued; return the input's id."""
    await session.send("sleep 1\ncrash")
    receipt = await session.send("say held", **how)
    await session.wait_stopped()
    return receipt.input_id


@pytest.fixture
async def crashing(sup: Supervisor) -> Session:
    """Return a session whose agent is not restarted when it crashes."""
    return await sup.create("scripted", restart=Restart(policy="never"))


async def test_an_input_that_a_stopped_session_holds_expires_at_its_time(
    crashing: Session,
) -> None:
    held = await hold_an_input(crashing, ttl_seconds=100.0)

    await trio.sleep(90.0)
    assert await waiting_texts(crashing) == ["say held"]
    await trio.sleep(20.0)

    assert await waiting_texts(crashing) == []
    assert (await outcomes(crashing))[held] == ["expired"]
    *_, settled = await records(crashing, "input_settled")
    *_, accepted = await records(crashing, "input_accepted")
    assert settled.at - accepted.at == pytest.approx(100.0, abs=0.01)


async def test_archiving_cancels_held_inputs(crashing: Session) -> None:
    held = await hold_an_input(crashing)

    await crashing.archive()
    await crashing.unarchive()
    await crashing.resume()

    assert (await outcomes(crashing))[held] == ["cancelled"]
    assert "held" not in await texts_of(crashing)


@pytest.mark.parametrize(
    "change",
    [
        lambda session, held: session.edit_input(held, "say another"),
        lambda session, held: session.move_input(held, 0),
        lambda session, held: session.cancel_input(held),
        lambda session, _: session.remove_rule("req_1"),
    ],
    ids=["edit_input", "move_input", "cancel_input", "remove_rule"],
)
async def test_an_archived_session_is_not_changed(
    crashing: Session, change: Callable[[Session, str], Awaitable[None]]
) -> None:
    held = await hold_an_input(crashing)
    await crashing.archive()
    before = (await crashing.info()).last_seq

    with pytest.raises(SessionNotActive, match="archived"):
        await change(crashing, held)

    assert (await crashing.info()).last_seq == before
