"""Interrupts of a whole tree: bottom up, level by level, without stopping a session."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.testing import settle
from supervisor import Phase, Session, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent, records, waiting_texts
from tests.support.tree_queries import WIDE, all_at_once, all_infos, check_tree_counts, refusal


@pytest.fixture
async def family(sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent) -> list[Session]:
    """A root, its child, and two below that, all of them at work."""
    root = await sup.create("fake", limits=WIDE)
    await root.send("go")
    await fake_agent.next_run()
    child = await root.spawn("child-agent", "x")
    below = [await child.spawn("child-agent", "y") for _ in range(2)]
    await settle()
    return [root, child, *below]


async def test_all_turns_of_a_tree_are_interrupted_and_no_session_is_stopped(
    sup: Supervisor, family: list[Session]
) -> None:
    report = await family[0].interrupt("tree", reason="enough")

    assert (report.scope, report.matched, report.stopped) == ("tree", 4, 4)
    assert {one.phase for one in await all_infos(sup)} == {Phase.IDLE}
    for session in family:
        (interrupted,) = await records(session, "interrupted")
        assert interrupted.body["reason"] == "enough"
    await check_tree_counts(sup)


async def test_nothing_outside_the_tree_is_touched(
    sup: Supervisor, family: list[Session], child_agent: FakeAgent
) -> None:
    root, child, *below = family
    sibling = await root.spawn("child-agent", "sibling")
    await child.interrupt("tree")

    assert (await root.info()).phase == "running"
    assert (await sibling.info()).phase == "running"
    assert [(await one.info()).phase for one in (child, *below)] == ["idle"] * 3


async def test_lower_levels_are_over_before_upper_levels_are_interrupted(
    sup: Supervisor, fake_agent: FakeAgent, shielded_agent: FakeAgent
) -> None:
    root = await sup.create("fake")
    await root.send("go")
    above = await fake_agent.next_run()
    await root.spawn("shielded", "x")
    await shielded_agent.next_run()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(root.interrupt, "tree")
        await trio.sleep(4.0)
        assert not above.over.is_set()
    assert above.over.is_set()
    assert trio.current_time() == 5.0


async def test_a_level_is_interrupted_in_parallel_under_one_ladder(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=WIDE)
    for _ in range(20):
        await root.spawn("shielded", "x")
    report = await root.interrupt("tree")

    assert (report.matched, report.unreachable, report.ladder_step) == (20, 20, "ask")
    assert (report.seconds, trio.current_time()) == (5.0, 5.0)


async def test_a_spawn_into_a_tree_being_interrupted_is_refused(
    sup: Supervisor, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    root = await sup.create("fake", limits=WIDE)
    child = await root.spawn("shielded", "x")
    await shielded_agent.next_run()
    nursery.start_soon(root.interrupt, "tree")
    await trio.sleep(1.0)
    refusals = [await refusal(one.spawn("child-agent", "late")) for one in (root, child)]
    await trio.sleep(10.0)
    await root.spawn("child-agent", "after")

    assert [one.limit for one in refusals] == ["parent", "parent"]


async def test_a_tree_reopens_to_spawns_when_the_interrupting_caller_is_cancelled(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=WIDE)
    await root.spawn("shielded", "x")
    await shielded_agent.next_run()
    with trio.move_on_after(1.0):
        await root.interrupt("tree")
    await trio.sleep(10.0)

    assert isinstance(await root.spawn("child-agent", "after"), Session)


async def test_the_queues_continue_after_a_tree_interrupt(
    session: Session, child: Session, child_run: AgentRun, child_agent: FakeAgent
) -> None:
    await child.send("later")
    await session.interrupt("tree")

    assert (await child_agent.next_run()).turn.text == "later"


async def test_queues_can_be_cancelled_with_their_turns(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    await child.send("later")
    await session.interrupt("tree", queued="cancel")
    await settle()

    assert await waiting_texts(child) == []
    assert (await child.info()).phase == "idle"


async def test_a_replacement_runs_at_the_top_only(
    sup: Supervisor, family: list[Session], fake_agent: FakeAgent
) -> None:
    await family[0].interrupt("tree", replace_with="instead")

    assert (await fake_agent.next_run()).turn.text == "instead"
    assert {(await one.info()).phase for one in family[1:]} == {Phase.IDLE}


async def test_interrupting_an_idle_tree_changes_nothing(
    sup: Supervisor, session: Session, child: Session, child_run: AgentRun
) -> None:
    child_run.finish()
    await settle()
    before = [(one.id, one.last_seq) for one in await all_infos(sup)]
    report = await session.interrupt("tree")

    assert (report.matched, report.stopped) == (0, 0)
    assert [(one.id, one.last_seq) for one in await all_infos(sup)] == before


async def test_a_tree_is_interrupted_and_stopped_at_once(
    sup: Supervisor, family: list[Session]
) -> None:
    root = family[0]
    await all_at_once(*[partial(root.interrupt, "tree")] * 3, root.stop)

    assert {one.phase for one in await all_infos(sup)} == {Phase.STOPPED}
    await check_tree_counts(sup)
