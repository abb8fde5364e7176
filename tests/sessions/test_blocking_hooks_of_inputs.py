"""Blocking hooks before inputs are accepted."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import (
    Change,
    Deny,
    HookEvent,
    InputRefused,
    NotRunning,
    Session,
    SessionNotFound,
    Stop,
    Supervisor,
    SupervisorError,
)
from tests.support.fake_agents import AgentRun, FakeAgent, records, waiting_texts
from tests.support.fake_hooks import RecordingHook, check_stopped_by_hook, hang, refused, slow_hook

# Input ----------------------------------------------------------------------------------


async def test_input_hooks_run_before_acceptance(sup: Supervisor, session: Session) -> None:
    ask = RecordingHook()
    seen: list[int] = []
    sup.hooks.add("input_submitted", ask)

    async def count(_: HookEvent) -> None:
        seen.append(len(await records(session, "input_accepted")))

    sup.hooks.add("input_submitted", count)
    receipt = await session.send(
        "hello", attachments=[{"a": 1}], when_busy="interrupt", ttl_seconds=60.0
    )

    assert seen == [0]
    assert (ask.only.session_id, ask.only.turn_id) == (session.id, None)
    assert dict(ask.only.data) == {
        "input_id": receipt.input_id,
        "text": "hello",
        "attachments": ({"a": 1},),
        "when_busy": "interrupt",
        "source": "user",
        "ttl_seconds": 60.0,
    }


async def test_steering_passes_the_input_hooks(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await session.steer("left")

    assert (ask.only.data["text"], ask.only.data["when_busy"]) == ("left", "steer")


async def test_an_input_of_an_agent_to_its_child_has_source_parent(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await run.do(child.send("more"))

    assert (ask.only.session_id, ask.only.data["source"]) == (child.id, "parent")


@pytest.mark.parametrize("way", ["send", "prompt", "steer"])
async def test_a_denied_input_leaves_no_trace(
    sup: Supervisor, session: Session, run: AgentRun, way: str
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Deny("rude")))
    before = await records(session)
    await refused(getattr(session, way)("secret"), InputRefused, "RecordingHook", "rude")
    await settle()

    assert await records(session) == before
    assert await waiting_texts(session) == []
    assert not run.over.is_set()


async def test_a_denied_input_may_be_sent_again_under_the_same_key(
    sup: Supervisor, session: Session
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Deny("not yet")), once=True)
    await refused(session.send("hello", idempotency_key="k"), InputRefused)
    receipt = await session.send("hello", idempotency_key="k")

    assert receipt.status == "started"


async def test_a_stop_by_an_input_hook_ends_session_and_turn(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Stop("enough")))
    await refused(session.send("more"), InputRefused, "enough")
    await check_stopped_by_hook(session, "enough")

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert len(await records(session, "input_accepted")) == 1


async def test_a_hook_shortens_the_time_an_input_may_wait(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Change(ttl_seconds=10.0)))
    receipt = await session.send("later")
    await trio.sleep(11.0)

    (settled,) = [
        one
        for one in await records(session, "input_settled")
        if one.body["input_id"] == receipt.input_id
    ]
    assert settled.body["outcome"] == "expired"


@pytest.mark.parametrize("longer", [61.0, None, -1.0, float("nan"), "1"])
async def test_a_hook_never_makes_an_input_wait_longer(
    sup: Supervisor, session: Session, run: AgentRun, longer: object
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Change(ttl_seconds=longer)))
    await session.send("later", ttl_seconds=60.0)
    (waiting,) = await session.inputs()

    assert waiting.expires_at == pytest.approx(waiting.accepted_at + 60.0)


async def test_a_hook_cannot_change_the_users_text(sup: Supervisor, session: Session) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Change(text="something else")), required=True)
    await refused(session.send("hello"), InputRefused, "text")


async def test_steering_of_an_idle_session_is_refused_with_hooks(
    sup: Supervisor, session: Session
) -> None:
    sup.hooks.add("input_submitted", RecordingHook())
    await refused(session.steer("left"), NotRunning)


async def test_a_repeated_send_is_answered_without_hooks(sup: Supervisor, session: Session) -> None:
    receipt = await session.send("hello", idempotency_key="k")
    ask = RecordingHook(Deny("too late"))
    sup.hooks.add("input_submitted", ask)

    assert await session.send("hello", idempotency_key="k") == receipt


async def test_the_text_that_replaces_a_turn_is_an_input_like_any_other(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook(Deny("rude"))
    sup.hooks.add("input_submitted", ask)
    await refused(session.interrupt(replace_with="secret"), InputRefused, "rude")

    assert ask.texts == ["secret"]
    assert not run.over.is_set()


async def test_an_edited_input_passes_the_hooks_again(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    receipt = await session.send("please")
    sup.hooks.add("input_submitted", RecordingHook(Deny("rude")))
    await refused(session.edit_input(receipt.input_id, "secret"), InputRefused, "rude")

    assert await waiting_texts(session) == ["please"]


async def test_concurrent_inputs_through_slow_hooks_are_each_accepted_once(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", slow_hook(1.0))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(session.send, str(number))

    assert sorted(await waiting_texts(session)) == ["0", "1", "2", "3", "4"]
    assert trio.current_time() - began == pytest.approx(1.0)


async def test_an_input_of_an_unknown_session_reaches_no_hook(sup: Supervisor) -> None:
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await refused(sup.session("s_nobody").send("hello"), SessionNotFound)

    assert ask.events == []


async def test_stopping_a_session_does_not_wait_for_input_hooks(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    sup.hooks.add("input_submitted", hang)
    nursery.start_soon(session.send, "hello")
    await trio.sleep(1.0)
    began = trio.current_time()
    await session.stop()

    assert trio.current_time() - began < 1.0


# By other ways --------------------------------------------------------------------------


async def test_a_replacing_input_has_the_id_shown_to_hooks(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await session.interrupt(replace_with="instead")
    accepted = (await records(session, "input_accepted"))[-1]

    assert (ask.only.data["input_id"], accepted.body["text"]) == (
        accepted.body["input_id"],
        "instead",
    )


async def test_an_edited_input_is_shown_under_its_own_id(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    receipt = await session.send("please")
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await session.edit_input(receipt.input_id, "pretty please")

    assert ask.only.data["input_id"] == receipt.input_id


async def test_a_hook_may_shorten_the_ttl_of_a_replacement(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Change(ttl_seconds=10.0)))
    await shielded_session.interrupt(replace_with="instead")
    (waiting,) = await shielded_session.inputs()

    assert waiting.expires_at == pytest.approx(waiting.accepted_at + 10.0)


async def test_an_input_to_a_stopping_session_does_not_resume_it_without_hooks(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    sup.hooks.add("session_resume", RecordingHook(Deny("stay")))
    nursery.start_soon(shielded_session.stop)
    await trio.sleep(1.0)
    with pytest.raises(SupervisorError):
        await shielded_session.send("again")
    await trio.sleep(100.0)

    assert (await shielded_session.info()).phase == "stopped"


async def test_an_interrupt_without_text_calls_no_hook(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", hang)
    report = await session.interrupt()

    assert (report.stopped, report.seconds) == (1, 0.0)


@pytest.mark.parametrize(
    "text", [5, "", "x" * 100_000, "\ud800"], ids=["int", "blank", "long", "half"]
)
async def test_an_invalid_input_reaches_no_hook(
    sup: Supervisor, session: Session, text: object
) -> None:
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    with pytest.raises(SupervisorError):
        await session.send(text)  # type: ignore[arg-type]

    assert ask.events == []
