"""Idempotency keys: the same input sent twice has one effect and one receipt."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    IdempotencyConflict,
    InputRefused,
    Receipt,
    Restart,
    Session,
    SessionNotActive,
    Supervisor,
)
from tests.support.fake_agents import AgentRun, FakeAgent, records, waiting_texts


async def test_the_same_key_returns_the_recorded_receipt(session: Session, run: AgentRun) -> None:
    first = await session.send("second", idempotency_key="k")
    await session.send("third")
    await session.move_input(first.input_id, 1)

    again = await session.send("second", idempotency_key="k")

    assert again == first
    assert await waiting_texts(session) == ["third", "second"]
    assert not run.over.is_set()


async def test_the_same_key_returns_its_receipt_when_the_turn_is_long_over(
    session: Session, fake_agent: FakeAgent
) -> None:
    first = await session.send("hello", idempotency_key="k")
    await fake_agent.finish_all()

    again = await session.send("hello", idempotency_key="k")

    assert again == first
    assert again.status == "started"
    assert await fake_agent.finish_all() == []


@pytest.mark.parametrize(
    "other", [{"text": "goodbye"}, {"when_busy": "steer"}, {"attachments": [{"path": "a"}]}]
)
async def test_the_same_key_with_another_body_is_a_conflict(
    session: Session, run: AgentRun, other: dict[str, object]
) -> None:
    body: dict[str, object] = {"text": "hello", "idempotency_key": "k"}
    await session.send(**body)  # type: ignore[arg-type]
    before = await records(session)

    with pytest.raises(IdempotencyConflict, match="another body"):
        await session.send(**(body | other))  # type: ignore[arg-type]

    assert await records(session) == before
    assert not run.over.is_set()


async def test_a_key_of_a_send_is_not_that_of_a_steer(session: Session, run: AgentRun) -> None:
    await session.send("hello", when_busy="steer", idempotency_key="k")

    with pytest.raises(IdempotencyConflict):
        await session.steer("hello", idempotency_key="k")

    assert run.turn.steering() == ["hello"]


async def test_many_sends_with_one_key_have_a_single_effect(
    session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    receipts: list[Receipt] = []

    async def send() -> None:
        receipts.append(await session.send("hello", idempotency_key="k"))

    for _ in range(50):
        nursery.start_soon(send)

    assert await fake_agent.finish_all() == ["hello"]
    assert len(receipts) == 50
    assert len(set(receipts)) == 1


async def test_prompts_with_the_same_key_get_the_same_result(
    session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    texts: list[str] = []

    async def prompt() -> None:
        texts.append((await session.prompt("hello", idempotency_key="k")).text)

    for _ in range(3):
        nursery.start_soon(prompt)
    run = await fake_agent.next_run()
    run.finish("once")
    await settle()
    await prompt()

    assert texts == ["once"] * 4
    assert fake_agent.runs == [run]


async def test_a_prompt_repeated_after_its_input_was_cancelled_reports_that(
    session: Session, run: AgentRun
) -> None:
    await session.send("second", idempotency_key="k")
    await session.stop()

    with pytest.raises(InputRefused, match="cancelled"):
        await session.prompt("second", idempotency_key="k")

    assert run.over.is_set()


async def test_a_prompt_repeated_while_its_input_is_held_reports_that(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))
    await session.send("sleep 1\ncrash")
    await session.send("say late", idempotency_key="k")
    await session.wait_stopped()

    with trio.fail_after(60), pytest.raises(SessionNotActive, match="holds"):
        await session.prompt("say late", idempotency_key="k")


async def test_an_idempotency_key_belongs_to_its_session(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    other = await sup.create("fake")
    mine = await session.send("hello", idempotency_key="k")

    theirs = await other.send("goodbye", idempotency_key="k")

    assert theirs.input_id != mine.input_id
    assert sorted(await fake_agent.finish_all()) == ["goodbye", "hello"]


async def test_a_refusal_is_not_recorded_under_its_key(session: Session, run: AgentRun) -> None:
    with pytest.raises(InputRefused):
        await session.send("hello", when_busy="reject", idempotency_key="k")

    receipt = await session.send("hello again", idempotency_key="k")

    assert receipt.status == "queued"
    assert not run.over.is_set()


async def test_a_key_outlives_the_sleep_of_its_session(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", suspend_after_seconds=60)
    first = await session.send("hello", idempotency_key="k")
    await fake_agent.finish_all()
    await trio.sleep(61)
    assert (await session.info()).phase == "suspended"

    again = await session.send("hello", idempotency_key="k")

    assert again == first
    assert await fake_agent.finish_all() == []


async def test_an_idempotency_key_outlives_a_stop_and_resumes_nothing(
    session: Session, fake_agent: FakeAgent
) -> None:
    first = await session.send("hello", idempotency_key="k")
    await fake_agent.finish_all()
    await session.stop()

    again = await session.send("hello", idempotency_key="k")

    assert again == first
    assert (await session.info()).phase == "stopped"


async def test_a_key_outlives_the_chapter(session: Session, fake_agent: FakeAgent) -> None:
    first = await session.send("hello", idempotency_key="k")
    await fake_agent.finish_all()
    await session.clear()

    assert await session.send("hello", idempotency_key="k") == first
    assert await fake_agent.finish_all() == []
