"""Budgets of a session's own: turns, tokens, cost and seconds."""

from __future__ import annotations

import random

import pytest
import trio

from actors.testing import settle
from supervisor import BudgetSpent, Limits, Session, Settings, Supervisor, TurnOver
from tests.support.fake_agents import AgentAction, AgentRun, FakeAgent, records
from tests.support.session_states import phase_of
from tests.support.tree_queries import ask, begin, check_tree_counts


async def spawn(
    parent: Session, child_agent: FakeAgent, **options: object
) -> tuple[Session, AgentRun]:
    child = await parent.spawn("child-agent", "errand", **options)  # type: ignore[arg-type]
    return child, await child_agent.next_run()


@pytest.mark.parametrize(
    ("limits", "usage"),
    [
        (Limits(tokens=100), {"input_tokens": 60, "output_tokens": 40}),
        (Limits(cost=0.5), {"cost": 0.5}),
    ],
)
async def test_the_usage_report_that_exhausts_a_budget_ends_the_session(
    sup: Supervisor, fake_agent: FakeAgent, limits: Limits, usage: dict[str, float]
) -> None:
    session = await sup.create("fake", limits=limits)
    run = await begin(session, fake_agent)
    run.turn.usage(**usage)  # type: ignore[arg-type]
    info = await session.wait_stopped()

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert (info.stop_reason, info.badge) == ("budget_exceeded", "stopped")
    assert session.id in str(info.stop_detail)
    await check_tree_counts(sup)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(tokens=30), "40 of 30 tokens"),
        (Limits(cost=0.25), "0.5 of 0.25 cost"),
        (Limits(wall_seconds=2.0), "2 of 2 wall_seconds"),
    ],
)
async def test_the_result_of_a_turn_names_the_exhausted_budget(
    sup: Supervisor, fake_agent: FakeAgent, nursery: trio.Nursery, limits: Limits, words: str
) -> None:
    session = await sup.create("fake", limits=limits)
    action = AgentAction(session.prompt("go"))
    nursery.start_soon(action.run)
    (await fake_agent.next_run()).turn.usage(output_tokens=40, cost=0.5)
    result = await action.wait()

    assert result.outcome == "interrupted"
    assert words in str(result.error)


async def test_the_result_of_a_child_names_its_expiry(
    session: Session, child_agent: FakeAgent
) -> None:
    child, _ = await spawn(session, child_agent, ttl_seconds=3.0)

    assert "expired" in str((await child.wait()).error)


async def test_the_result_of_a_child_names_the_stop_of_its_parent(
    session: Session, child_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    child, _ = await spawn(session, child_agent)
    action = AgentAction(child.wait())
    nursery.start_soon(action.run)
    await settle()
    await session.stop()

    assert "the parent of its session has stopped" in str((await action.wait()).error)


async def test_the_result_of_a_turn_names_the_deletion_of_its_session(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    action = AgentAction(session.prompt("go"))
    nursery.start_soon(action.run)
    await fake_agent.next_run()
    await sup.delete(session.id)

    assert "deleted" in str((await action.wait()).error)


async def test_a_session_within_its_budget_continues(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(tokens=100))
    run = await begin(session, fake_agent)
    run.turn.usage(output_tokens=99)
    await settle()

    assert await phase_of(session) == "running"
    assert (await session.info()).spent.tokens == 99


async def test_usage_beyond_the_budget_is_counted_and_shown(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(tokens=100))
    run = await begin(session, fake_agent)
    run.turn.usage(output_tokens=90)
    run.turn.usage(output_tokens=90)
    info = await session.wait_stopped()

    assert (info.usage.output_tokens, info.spent.tokens) == (180, 180)
    assert "180 of 100 tokens" in str(info.stop_detail)


async def test_no_second_report_goes_beyond_the_budget(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(tokens=100))
    run = await begin(session, fake_agent)
    run.turn.usage(output_tokens=100)

    with pytest.raises(BudgetSpent) as spent:
        run.turn.usage(output_tokens=1)
    info = await session.wait_stopped()

    assert spent.value.hint
    assert info.usage.output_tokens == 100


async def test_usage_after_the_turn_is_over_is_not_counted(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(tokens=100))
    run = await begin(session, fake_agent)
    run.finish()
    await settle()

    with pytest.raises(TurnOver):
        run.turn.usage(output_tokens=100)
    assert (await session.info()).spent.tokens == 0


async def test_a_spent_turns_budget_cancels_queued_inputs(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(turns=2))
    first = await begin(session, fake_agent, "one")
    await session.send("two")
    await session.send("three")
    first.finish()
    (await fake_agent.next_run()).finish()
    info = await session.wait_stopped()

    assert (info.stop_reason, info.turns, info.queued) == ("max_turns", 2, 0)
    assert "2 of 2 turns" in str(info.stop_detail)
    settled = await records(session, "input_settled")
    assert [one.body["outcome"] for one in settled] == ["delivered", "delivered", "cancelled"]


async def test_the_last_turn_is_not_cut_short(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", limits=Limits(turns=1))
    run = await begin(session, fake_agent)
    await trio.sleep(10.0)
    run.finish("done")
    await settle()

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "completed"


async def test_the_last_turn_can_still_be_steered(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", limits=Limits(turns=1))
    run = await begin(session, fake_agent)
    await session.steer("shorter")
    await session.send("please", when_busy="steer")

    assert run.turn.steering() == ["shorter", "please"]


async def test_wall_seconds_count_running_turns_only(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(wall_seconds=10.0))
    run = await begin(session, fake_agent)
    await trio.sleep(6.0)
    run.finish()
    await trio.sleep(100.0)
    await begin(session, fake_agent)
    began = trio.current_time()
    info = await session.wait_stopped()

    assert trio.current_time() - began == pytest.approx(4.0)
    assert info.stop_reason == "budget_exceeded"
    assert info.spent.wall_seconds == pytest.approx(10.0)


async def test_a_session_without_relatives_spends_the_time_of_its_running_turn(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake")
    run = await begin(session, fake_agent)
    await trio.sleep(6.0)

    assert (await session.info()).spent.wall_seconds == pytest.approx(6.0)
    run.finish()
    await session.wait_idle()
    await trio.sleep(100.0)
    assert (await session.info()).spent.wall_seconds == pytest.approx(6.0)


async def test_turns_that_run_side_by_side_spend_wall_seconds_side_by_side(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(wall_seconds=12.0))
    children = [await root.spawn("child-agent", "x") for _ in range(4)]
    began = trio.current_time()
    for child in children:
        await child.wait_stopped()

    assert trio.current_time() - began == pytest.approx(3.0)
    assert (await root.info()).spent.wall_seconds == pytest.approx(12.0)


@pytest.mark.parametrize("running", [1, 2, 3, 7])
async def test_wall_seconds_run_out_whenever_a_turn_begins(sup: Supervisor, running: int) -> None:
    """Sums of floats are inexact; a session must not wait for a rounding error."""
    chance = random.Random(running)
    for _ in range(20):
        limits = Limits(wall_seconds=20 + 100 * chance.random(), max_children=10)
        root = await sup.create("fake", limits=limits)
        for _ in range(running):
            await trio.sleep(chance.random())
            await root.spawn("child-agent", "x")
        children = (await root.info()).children
        with trio.fail_after(200.0):
            await sup.session(children[-1]).wait_stopped()


async def test_a_budget_of_nothing_refuses_the_first_input(sup: Supervisor) -> None:
    for limits in (Limits(turns=0), Limits(tokens=0), Limits(cost=0), Limits(wall_seconds=0)):
        session = await sup.create("fake", limits=limits)
        with pytest.raises(BudgetSpent):
            await session.send("x")


class TestOfTheSettings:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(limits=Limits(tokens=100))

    async def test_a_root_has_the_budget_of_the_settings(
        self, sup: Supervisor, run: AgentRun, session: Session
    ) -> None:
        run.turn.usage(output_tokens=100)

        assert (await session.wait_stopped()).stop_reason == "budget_exceeded"

    async def test_a_child_does_not_get_a_separate_budget(
        self, session: Session, child: Session, child_run: AgentRun
    ) -> None:
        assert (await child.info()).limits.tokens is None
        child_run.turn.usage(output_tokens=60)
        await settle()
        assert (await session.info()).spent.tokens == 60


async def test_ten_tenths_are_a_whole(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", limits=Limits(cost=1.0))
    run = await begin(session, fake_agent)
    for _ in range(10):
        run.turn.usage(cost=0.1)
    await settle()

    assert (await session.info()).stop_reason == "budget_exceeded"


async def test_an_agent_that_ignores_budget_spent_is_stopped(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(tokens=10))
    run = await begin(session, fake_agent)
    run.turn.usage(output_tokens=10)
    with pytest.raises(BudgetSpent) as spent:
        run.turn.usage(output_tokens=10)
    run.fail(spent.value)
    info = await session.wait_stopped()

    assert (info.stop_reason, info.badge, info.restarts) == ("budget_exceeded", "stopped", 0)


async def test_a_session_that_waits_for_a_person_is_stopped_by_its_budget(
    sup: Supervisor, child_agent: FakeAgent, fake_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(tokens=10))
    run = await begin(root, fake_agent)
    await ask(run)
    _, at_work = await root.spawn("child-agent", "x"), await child_agent.next_run()
    at_work.turn.usage(output_tokens=10)
    await root.wait_stopped()

    assert await sup.permissions() == ()
    assert (await root.info()).stop_reason == "budget_exceeded"
