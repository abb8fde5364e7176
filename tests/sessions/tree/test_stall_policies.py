"""What is done about a stall, once; and turns that have had all the time they may have."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import Phase, Restart, Session, Supervisor
from supervisor.core.limits import OnStall
from tests.support.fake_agents import AgentRun, FakeAgent, Interrupted, records, waiting_texts
from tests.support.session_states import NEVER, phase_of
from tests.support.tree_queries import STALLED, check_tree_counts, ends, only, silence_records


async def at_stall(
    sup: Supervisor,
    fake_agent: FakeAgent,
    on_stall: OnStall,
    **more: Any,  # noqa: ANN401
) -> Session:
    """A session whose turn is about to be found stalled, and what waits behind it."""
    session = await sup.create("fake", on_stall=on_stall, **more)
    await session.send("first")
    await session.send("second")
    await fake_agent.next_run()
    await trio.sleep(STALLED - 1.0)
    assert await phase_of(session) == "running"
    await trio.sleep(2.0)
    return session


# What is done about it ----------------------------------------------------------------------------


async def test_a_stalled_turn_is_interrupted_and_the_queue_continues(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await at_stall(sup, fake_agent, "interrupt")
    interrupted = await only(session, "interrupted")
    ended = await only(session, "turn_ended")

    assert interrupted.body["reason"] == "stalled"
    assert ended.body["outcome"] == "interrupted"
    assert (await fake_agent.next_run()).turn.text == "second"


async def test_a_stalled_agent_is_restarted_and_the_queue_continues(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await at_stall(sup, fake_agent, "restart")
    await fake_agent.next_run()
    info = await session.info()

    assert (info.restarts, info.phase) == (1, Phase.RUNNING)
    assert info.last_failure is not None
    assert info.last_failure.kind == "timeout"


async def test_an_agent_that_stalls_too_often_fails_its_session(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await at_stall(sup, fake_agent, "restart", restart=NEVER)
    info = await session.wait_stopped()

    assert (info.stop_reason, info.badge) == ("timeout", "failed")
    assert await waiting_texts(session) == ["second"]
    await check_tree_counts(sup)


async def test_restarts_for_stalls_are_counted_in_their_window(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    patience = Restart(max_restarts=2, within_seconds=10_000.0)
    session = await sup.create("fake", on_stall="restart", restart=patience)
    for number in range(5):
        await session.send(str(number))
    info = await session.wait_stopped()

    assert (info.stop_reason, info.restarts, info.turns) == ("timeout", 2, 3)
    assert await waiting_texts(session) == ["3", "4"]


async def test_a_stalled_session_is_stopped_with_its_queue_held(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await at_stall(sup, fake_agent, "stop")
    info = await session.wait_stopped()

    assert (info.stop_reason, info.badge) == ("timeout", "failed")
    assert "model" in str(info.stop_detail)
    assert info.last_failure is not None
    assert info.last_failure.kind == "timeout"
    assert await waiting_texts(session) == ["second"]
    await check_tree_counts(sup)


async def test_a_stalled_session_that_was_stopped_can_be_resumed(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await at_stall(sup, fake_agent, "stop")
    await session.wait_stopped()
    await session.resume()

    assert (await fake_agent.next_run()).turn.text == "second"


async def test_a_parent_is_notified_that_its_child_was_stopped_for_a_stall(
    session: Session, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "x", on_stall="stop")
    await child.wait_stopped()
    await settle()

    (end,) = await ends(session)
    assert (end.body["child"], end.body["reason"]) == (child.id, "timeout")


async def test_the_stall_policy_runs_once_per_stall(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded", on_stall="interrupt")
    await session.send("x")
    await shielded_agent.next_run()
    await trio.sleep(10 * STALLED)

    assert len(await records(session, "interrupted")) == 1
    assert len(await records(session, "stalled")) == 1
    assert (await session.info()).badge == "unhealthy"  # its task will not end


async def test_a_policy_is_for_stalls_only(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", on_stall="stop")
    await session.send("x")
    await fake_agent.next_run()
    await trio.sleep(STALLED - 1.0)

    assert await silence_records(session) == ["quiet"]
    assert await phase_of(session) == "running"


async def test_a_parent_that_waits_is_not_interrupted_for_a_child_that_is(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    """The child's own policy gets the child going again, which is progress of the parent's too."""
    parent = await sup.create("fake", on_stall="interrupt", stalled_after_seconds=400.0)
    await parent.send("x")
    run = await fake_agent.next_run()
    spawning = run.turn.spawn(
        "child-agent", "x", on_stall="interrupt", stalled_after_seconds=STALLED
    )
    child = await run.do(spawning)
    action = run.begin(child.wait())
    await child_agent.next_run()

    assert (await action.wait()).outcome == "interrupted"
    assert await phase_of(parent) == "running"


# Deadlines ----------------------------------------------------------------------------------------


@pytest.fixture
async def hurried(sup: Supervisor) -> Session:
    return await sup.create("fake", turn_deadline_seconds=30.0)


async def test_a_turn_that_takes_too_long_is_timed_out(
    hurried: Session, fake_agent: FakeAgent
) -> None:
    result = await hurried.prompt("x")

    assert result.outcome == "timed_out"
    assert trio.current_time() == pytest.approx(30.0)
    assert await phase_of(hurried) == "idle"


async def test_a_turn_with_progress_times_out_at_its_deadline(
    hurried: Session, fake_agent: FakeAgent
) -> None:
    await hurried.send("x")
    run = await fake_agent.next_run()
    with pytest.raises(Interrupted):
        await run.do(keep_talking(run))

    assert trio.current_time() == pytest.approx(30.0)
    assert (await only(hurried, "interrupted")).body["reason"] == "deadline"


async def keep_talking(run: AgentRun) -> None:
    while True:
        await run.turn.say(".")
        await trio.sleep(1.0)


async def test_the_next_turn_has_a_time_of_its_own(hurried: Session, fake_agent: FakeAgent) -> None:
    for _ in range(3):
        await hurried.send("x")
        run = await fake_agent.next_run()
        await trio.sleep(29.0)
        run.finish()
        await settle()

    outcomes = [one.body["outcome"] for one in await records(hurried, "turn_ended")]
    assert outcomes == ["completed"] * 3


async def test_the_queue_continues_after_a_timed_out_turn(
    hurried: Session, fake_agent: FakeAgent
) -> None:
    await hurried.send("first")
    await hurried.send("second")
    await fake_agent.next_run()

    assert (await fake_agent.next_run()).turn.text == "second"
    assert trio.current_time() == pytest.approx(30.0)


async def test_a_turn_that_ignores_cancellation_times_out_by_the_ladder(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded", turn_deadline_seconds=30.0)
    result = await session.prompt("x")

    assert result.outcome == "timed_out"
    assert trio.current_time() == pytest.approx(35.0)


async def test_a_turn_interrupted_before_its_deadline_is_interrupted(
    sup: Supervisor, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    session = await sup.create("shielded", turn_deadline_seconds=30.0)
    await session.send("x")
    await trio.sleep(28.0)
    nursery.start_soon(session.interrupt)
    await trio.sleep(10.0)

    assert (await only(session, "turn_ended")).body["outcome"] == "interrupted"


async def test_a_timed_out_child_is_reported_as_timed_out(
    session: Session, child_agent: FakeAgent
) -> None:
    child = await session.spawn("child-agent", "x", turn_deadline_seconds=10.0)
    await child.wait()
    await settle()

    ended = await only(session, "child_ended")
    assert ended.body["outcome"] == "timed_out"
