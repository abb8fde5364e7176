"""Blocking hooks before turns."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Change,
    Deny,
    HookEvent,
    InputRefused,
    Session,
    Settings,
    Stop,
    Supervisor,
)
from supervisor.core.state import Failure
from supervisor.sessions.hooks import BlockingPoint
from tests.support.fake_agents import AgentAction, AgentRun, FakeAgent, records
from tests.support.fake_hooks import (
    DEADLINE,
    RecordingHook,
    check_nothing_left,
    check_stopped_by_hook,
    fence_actor,
    hang,
    refused,
    slow_hook,
)
from tests.support.session_states import SlowStartAgent


async def test_a_turn_begins_with_the_consent_of_hooks(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    start, prompt = RecordingHook(), RecordingHook()
    sup.hooks.add("turn_start", start)
    sup.hooks.add("prompt_assembled", prompt)
    receipt = await session.send("hello", attachments=[{"a": 1}])
    run = await fake_agent.next_run()

    for event in (start.only, prompt.only):
        assert (event.session_id, event.turn_id) == (session.id, run.turn.id)
    said = {"input_id": receipt.input_id, "text": "hello"}
    assert dict(start.only.data) == {**said, "source": "user"}
    assert dict(prompt.only.data) == {**said, "attachments": ({"a": 1},)}


async def test_the_agent_gets_the_hooks_text_and_the_record_keeps_the_users(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("prompt_assembled", lambda e: Change(text=e.data["text"] + "!"))
    sup.hooks.add("prompt_assembled", lambda e: Change(text=e.data["text"] + "?", attachments=[{}]))
    await session.send("hello")
    run = await fake_agent.next_run()
    run.finish("done")
    await settle()

    assert (run.turn.text, run.turn.attachments) == ("hello!?", ({},))
    assert [message.text for message in await session.transcript()] == ["hello", "done"]
    stored = str([record.body for record in await records(session)])
    assert "hello!" not in stored


async def test_the_history_of_the_next_turn_has_the_users_text(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("prompt_assembled", RecordingHook(Change(text="changed")), once=True)
    await session.send("hello")
    (await fake_agent.next_run()).finish("done")
    await settle()
    await session.send("again")
    run = await fake_agent.next_run()

    assert [message.text for message in run.turn.history] == ["hello", "done"]
    assert run.turn.text == "again"


@pytest.mark.parametrize("point", ["turn_start", "prompt_assembled"])
async def test_a_denied_turn_fails_and_the_next_turn_runs(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, point: BlockingPoint
) -> None:
    sup.hooks.add(point, RecordingHook(Deny("rude")), once=True)
    result = await session.prompt("hello")
    await session.send("again")
    run = await fake_agent.next_run()

    assert result.outcome == "failed"
    assert "RecordingHook" in str(result.error)
    assert "rude" in str(result.error)
    assert run.turn.text == "again"


@pytest.mark.parametrize("point", ["turn_start", "prompt_assembled"])
async def test_a_hook_that_stops_at_a_turn_ends_the_session(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, point: BlockingPoint
) -> None:
    sup.hooks.add(point, RecordingHook(Stop("enough")))
    await session.send("hello")
    await check_stopped_by_hook(session, "enough")

    assert fake_agent.runs == []
    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] in ("failed", "interrupted")


async def test_no_queued_input_runs_after_a_hook_stops_the_session(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    async def stop_the_first(event: HookEvent) -> Stop | None:
        await trio.sleep(1.0)
        return Stop("enough") if event.data["text"] == "first" else None

    sup.hooks.add("turn_start", stop_the_first)
    await session.send("first")
    await session.send("second")
    await check_stopped_by_hook(session, "enough")

    assert fake_agent.runs == []
    assert len(await records(session, "turn_started")) == 1


async def test_hooks_added_during_a_turn_run_at_the_next_turn(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    ask = RecordingHook()
    sup.hooks.add("turn_start", ask)
    await session.send("second")
    run.finish()
    await fake_agent.next_run()

    assert ask.texts == ["second"]


async def test_a_turn_starts_when_its_hooks_have_answered(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("turn_start", hang)
    sup.hooks.add("prompt_assembled", hang, deadline_seconds=2.0)
    began = trio.current_time()
    await session.send("hello")
    run = await fake_agent.next_run()

    assert trio.current_time() - began == pytest.approx(DEADLINE + 2.0)
    assert run.turn.text == "hello"


async def test_a_required_hook_that_hangs_denies_the_turn(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("turn_start", hang, required=True)
    result = await session.prompt("hello")

    assert result.outcome == "failed"
    assert "no answer within" in str(result.error)
    await check_nothing_left(sup, session)


@pytest.mark.parametrize("point", ["turn_start", "prompt_assembled"])
async def test_an_interrupt_ends_a_turn_in_hooks_at_once(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, point: BlockingPoint
) -> None:
    sup.hooks.add(point, hang)
    await session.send("hello")
    await trio.sleep(1.0)
    report = await session.interrupt(reason="changed my mind")
    await settle()

    assert (report.matched, report.stopped, report.seconds) == (1, 1, 0.0)
    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert fake_agent.runs == []
    await check_nothing_left(sup, session)


async def test_the_turn_after_an_interrupted_turn_passes_hooks_again(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("turn_start", slow_hook(2.0))
    await session.send("one")
    await trio.sleep(1.0)
    await session.interrupt(replace_with="two")
    began = trio.current_time()
    run = await fake_agent.next_run()

    assert run.turn.text == "two"
    assert trio.current_time() - began == pytest.approx(2.0)
    assert len(fake_agent.runs) == 1


async def test_a_stuck_hook_does_not_prevent_an_interrupt(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    async def shielded(_: HookEvent) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(1000.0)

    sup.hooks.add("turn_start", shielded, once=True)
    await session.send("hello")
    await trio.sleep(1.0)
    report = await session.interrupt()
    await session.send("next")
    run = await fake_agent.next_run()

    assert (report.stopped, report.seconds, run.turn.text) == (1, 0.0, "next")
    assert len(sup._services.tasks.zombies) == 1


async def test_stop_does_not_wait_for_the_hooks_of_a_turn(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("turn_start", hang)
    await session.send("hello")
    await trio.sleep(1.0)
    began = trio.current_time()
    await session.stop()
    await trio.sleep(100.0)

    assert (await session.info()).stop_reason == "user_cancelled"
    assert fake_agent.runs == []
    assert trio.current_time() - began == 100.0


async def test_a_stop_after_the_turn_waits_for_a_turn_in_hooks(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    sup.hooks.add("turn_start", slow_hook(2.0))
    await session.send("hello")
    await trio.sleep(1.0)
    nursery.start_soon(lambda: session.stop(when="after_turn"))
    (await fake_agent.next_run()).finish("done")
    await session.wait_stopped()

    assert (await records(session, "turn_ended"))[0].body["outcome"] == "completed"


async def test_a_turn_times_out_when_its_hooks_exceed_the_deadline(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", turn_deadline_seconds=3.0)
    sup.hooks.add("turn_start", hang)
    began = trio.current_time()
    result = await session.prompt("hello")

    assert result.outcome == "timed_out"
    assert trio.current_time() - began == pytest.approx(3.0, abs=0.1)
    assert fake_agent.runs == []
    await check_nothing_left(sup, session)


async def test_a_turn_with_hanging_hooks_is_reported_stalled(sup: Supervisor) -> None:
    session = await sup.create("fake", stalled_after_seconds=10.0, on_stall="interrupt")
    sup.hooks.add("turn_start", hang, deadline_seconds=1000.0)
    result = await session.prompt("hello")

    assert result.outcome == "interrupted"
    assert trio.current_time() == pytest.approx(10.0, abs=1.0)


async def test_a_session_can_be_deleted_during_hooks(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("turn_start", slow_hook(2.0, Stop("enough")))
    await session.send("hello")
    await trio.sleep(1.0)
    await sup.delete(session.id)
    await trio.sleep(10.0)

    assert not await sup.exists(session.id)
    assert fake_agent.runs == []


async def test_steering_sent_during_hooks_reaches_the_turn(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("turn_start", slow_hook(2.0))
    await session.send("hello")
    await trio.sleep(1.0)
    await session.steer("left")
    run = await fake_agent.next_run()

    assert run.turn.steering() == ["left"]


async def test_a_turn_is_lost_when_its_actor_crashes_during_hooks(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("turn_start", slow_hook(2.0), once=True)
    await session.send("hello")
    await trio.sleep(1.0)
    await fence_actor(sup, session)
    await trio.sleep(10.0)

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "lost"
    assert fake_agent.runs == []
    await check_nothing_left(sup, session)


async def test_a_stop_by_a_hook_counts_after_a_crash_of_the_actor(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    sup.hooks.add("input_submitted", slow_hook(2.0, Stop("enough")))
    action = AgentAction(session.send("hello"))
    nursery.start_soon(action.run)
    await trio.sleep(1.0)
    await fence_actor(sup, session)
    await refused(action.wait(), InputRefused)

    await check_stopped_by_hook(session, "enough")


async def test_an_agent_that_exits_during_hooks_does_not_get_the_turn(
    fake_agent: FakeAgent,
) -> None:
    slow = SlowStartAgent()
    slow.waits = False
    agents: list[Any] = [fake_agent.agent, slow]
    async with supervisor.open(":memory:", agents=agents) as sup:
        session = await sup.create("slow")
        sup.hooks.add("turn_start", slow_hook(2.0), once=True)
        await session.send("hello")
        await trio.sleep(1.0)
        slow.leave(Failure("process_exit", "it fell"))
        await trio.sleep(10.0)

        (ended,) = await records(session, "turn_ended")
        assert ended.body["outcome"] == "lost"
        assert (await session.info()).turn_id is None


async def test_steering_for_a_denied_turn_runs_as_its_own_turn(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    sup.hooks.add("turn_start", slow_hook(2.0, Deny("no")), once=True)
    await session.send("hello")
    await trio.sleep(1.0)
    await session.steer("left")
    run = await fake_agent.next_run()

    assert run.turn.text == "left"


async def test_an_interrupt_does_not_undo_a_stop_by_a_hook(
    sup: Supervisor, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_stop = sup._parts.router.order_stop

    async def slow(*args: Any, **options: Any) -> None:  # noqa: ANN401 - those of order_stop
        await trio.sleep(1.0)  # the store takes its time
        await order_stop(*args, **options)

    monkeypatch.setattr(sup._parts.router, "order_stop", slow)
    sup.hooks.add("turn_start", RecordingHook(Stop("enough")))
    await session.send("hello")
    await trio.sleep(0.5)
    await session.interrupt()

    await check_stopped_by_hook(session, "enough")


async def test_a_turn_interrupted_by_shutdown_in_hooks_has_the_reason(
    fake_agent: FakeAgent,
) -> None:
    settings = Settings(exit_seconds=1.0)
    async with supervisor.open(agents=[fake_agent.agent], settings=settings) as sup:
        session = await sup.create("fake")
        sup.hooks.add("turn_start", hang, deadline_seconds=1000.0)
        told: list[HookEvent] = []
        sup.hooks.add("turn_end", told.append)
        await session.send("hello")
        await settle()

    assert [event.data["outcome"] for event in told] == ["interrupted"]
    assert trio.current_time() < 3.0
    assert fake_agent.runs == []
