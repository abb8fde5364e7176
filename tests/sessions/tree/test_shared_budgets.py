"""Budgets of ancestors: all below spend from them, and stop when they are spent."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import BudgetSpent, Limits, Session, SpawnRefused, Supervisor, TurnOver
from tests.support.fake_agents import AgentRun, FakeAgent, Interrupted, waiting_texts
from tests.support.session_states import phase_of
from tests.support.tree_queries import all_at_once, begin, check_tree_counts, ends, refusal


async def spawn(
    parent: Session, child_agent: FakeAgent, **options: object
) -> tuple[Session, AgentRun]:
    child = await parent.spawn("child-agent", "errand", **options)  # type: ignore[arg-type]
    return child, await child_agent.next_run()


async def how_it_ended(session: Session) -> tuple[str, str | None]:
    info = await session.info()
    return info.phase, info.stop_reason


# Of those above -----------------------------------------------------------------------------------


async def test_a_child_spends_from_every_ancestor(sup: Supervisor, child_agent: FakeAgent) -> None:
    root = await sup.create("fake", limits=Limits(tokens=1000))
    child, _ = await spawn(root, child_agent, limits=Limits(tokens=1000))
    below, at_work = await spawn(child, child_agent)
    at_work.turn.usage(input_tokens=5, output_tokens=6, cost=0.25)
    await settle()

    for session in (root, child, below):
        spent = (await session.info()).spent
        assert (spent.tokens, spent.cost) == (11, 0.25)
    assert (await root.info()).usage.output_tokens == 0  # that is what it has used itself


async def test_only_sessions_running_on_a_spent_budget_stop(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake")
    rich, _ = await spawn(root, child_agent)
    poor, _ = await spawn(root, child_agent, limits=Limits(tokens=10))
    below, at_work = await spawn(poor, child_agent)
    at_work.turn.usage(output_tokens=10)
    await poor.wait_stopped()
    await settle()

    assert await how_it_ended(poor) == ("stopped", "budget_exceeded")
    assert await how_it_ended(below) == ("stopped", "budget_exceeded")
    assert await phase_of(rich) == "running"
    assert await phase_of(root) == "idle"
    await check_tree_counts(sup)


async def test_the_parent_is_notified_of_the_spent_budget(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake")
    poor, at_work = await spawn(root, child_agent, limits=Limits(cost=1.0))
    at_work.turn.usage(cost=1.5)
    await poor.wait_stopped()
    await settle()

    (end,) = await ends(root)
    assert (end.body["child"], end.body["reason"]) == (poor.id, "budget_exceeded")
    assert "1.5 of 1 cost" in end.body["detail"]
    assert end.body["outcome"] == "interrupted"


async def test_overshoot_is_one_report_for_each_running_session(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(tokens=100, max_children=10))
    runs = [(await spawn(root, child_agent))[1] for _ in range(10)]

    async def burn(run: AgentRun) -> None:
        while True:
            run.turn.usage(output_tokens=30)
            await trio.lowlevel.checkpoint()

    results = await all_at_once(*(run.begin(burn(run)).wait for run in runs))
    await settle()
    spent = (await root.info()).spent.tokens

    assert {type(one) for one in results} <= {BudgetSpent, Interrupted, TurnOver}
    assert 100 <= spent < 100 + 10 * 30
    assert [one.body["reason"] for one in await ends(root)] == ["budget_exceeded"] * 10
    await check_tree_counts(sup)


async def test_turns_of_children_are_turns_of_their_ancestors(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(turns=3))
    children = [(await spawn(root, child_agent))[0] for _ in range(3)]

    refused = await refusal(root.spawn("child-agent", "one more"))
    with pytest.raises(BudgetSpent):
        await children[0].send("another turn")
    with pytest.raises(BudgetSpent):
        await root.send("my turn")

    assert (refused.limit, refused.used, refused.allowed) == ("turns", 3, 3)
    assert f"limits.turns of session {root.id}" in refused.hint


async def test_turns_begun_at_once_never_exceed_the_budget(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(turns=5, max_children=50))
    await all_at_once(*[lambda: root.spawn("child-agent", "x")] * 30)
    await child_agent.finish_all()
    await settle()

    assert (await root.info()).spent.turns == 5
    assert len(child_agent.runs) == 5
    await check_tree_counts(sup)


async def test_an_agent_with_a_spent_budget_cannot_spawn(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(turns=1))
    run = await begin(session, fake_agent)

    refused = await refusal(run.do(run.turn.spawn("child-agent", "x")))

    assert (refused.limit, refused.used, refused.allowed) == ("turns", 1, 1)


async def test_a_detached_child_still_spends_from_its_root(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(tokens=10))
    child, at_work = await spawn(root, child_agent, lifetime="detached")
    await root.stop()
    at_work.turn.usage(output_tokens=10)

    assert (await child.wait_stopped()).stop_reason == "budget_exceeded"


async def test_deleted_children_stay_paid_for(sup: Supervisor, child_agent: FakeAgent) -> None:
    root = await sup.create("fake", limits=Limits(tokens=100))
    child, at_work = await spawn(root, child_agent)
    _, below = await spawn(child, child_agent)
    at_work.turn.usage(output_tokens=30)
    below.turn.usage(output_tokens=40)
    await sup.delete(child.id)
    assert (await root.info()).spent.tokens == 70

    _, at_work = await spawn(root, child_agent)
    at_work.turn.usage(output_tokens=30)
    await settle()

    assert (await refusal(root.spawn("child-agent", "x"))).limit == "tokens"


# Refused until it is raised -----------------------------------------------------------------------


@pytest.fixture
async def spent(sup: Supervisor, fake_agent: FakeAgent) -> Session:
    """A session that has spent all its tokens, and was stopped for it."""
    session = await sup.create("fake", limits=Limits(tokens=10))
    (await begin(session, fake_agent)).turn.usage(output_tokens=10)
    await session.wait_stopped()
    return session


async def test_a_spent_session_takes_no_input(spent: Session) -> None:
    with pytest.raises(BudgetSpent) as refused:
        await spent.send("more")

    assert f"raise limits.tokens of session {spent.id}, then resume it" in refused.value.hint
    assert (refused.value.limit, refused.value.used) == ("tokens", refused.value.allowed)
    assert await waiting_texts(spent) == []


async def test_a_session_with_a_raised_budget_must_be_resumed(spent: Session) -> None:
    await spent.set(limits={"tokens": 10_000})
    with pytest.raises(BudgetSpent) as refused:
        await spent.send("more")

    assert "resume the session" in refused.value.hint
    assert "raise" not in refused.value.hint


async def test_a_spent_session_is_not_resumed(spent: Session) -> None:
    with pytest.raises((BudgetSpent, SpawnRefused)) as refused:
        await spent.resume()

    assert f"limits.tokens of session {spent.id}" in refused.value.hint
    assert await phase_of(spent) == "stopped"


async def test_a_limit_raised_below_the_usage_resumes_no_session(spent: Session) -> None:
    await spent.set(limits=Limits(tokens=10))

    with pytest.raises((BudgetSpent, SpawnRefused)):
        await spent.resume()


async def test_raising_the_budget_allows_resume(spent: Session, fake_agent: FakeAgent) -> None:
    await spent.set(limits=Limits(tokens=20))
    await spent.resume()
    run = await begin(spent, fake_agent)
    run.turn.usage(output_tokens=9)
    await settle()

    assert await phase_of(spent) == "running"
    run.turn.usage(output_tokens=1)
    assert (await spent.wait_stopped()).spent.tokens == 20


async def test_a_child_can_resume_when_its_ancestors_limit_is_raised(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(tokens=10))
    child, at_work = await spawn(root, child_agent)
    at_work.turn.usage(output_tokens=10)
    await child.wait_stopped()
    with pytest.raises(SpawnRefused) as refused:
        await child.resume()
    await root.set(limits=Limits(tokens=100))
    await child.resume()

    assert f"limits.tokens of session {root.id}" in refused.value.hint
    assert await phase_of(child) == "idle"


async def test_a_limit_raised_in_time_keeps_the_session_going(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(wall_seconds=10.0))
    await begin(session, fake_agent)
    await trio.sleep(9.0)
    await session.set(limits=Limits(wall_seconds=20.0))
    await trio.sleep(9.0)
    assert await phase_of(session) == "running"
    info = await session.wait_stopped()

    assert trio.current_time() == pytest.approx(20.0)
    assert info.spent.wall_seconds == pytest.approx(20.0)


async def test_lowering_a_budget_below_its_usage_ends_running_turns(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake")
    run = await begin(session, fake_agent)
    run.turn.usage(output_tokens=50)
    await settle()
    await session.set(limits=Limits(tokens=40))

    assert (await session.wait_stopped()).stop_reason == "budget_exceeded"


async def test_usage_survives_stop_and_resume(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", limits=Limits(tokens=10))
    run = await begin(session, fake_agent)
    run.turn.usage(output_tokens=6)
    await session.stop()
    await session.resume()
    run = await begin(session, fake_agent)
    run.turn.usage(output_tokens=4)

    assert (await session.wait_stopped()).stop_reason == "budget_exceeded"
