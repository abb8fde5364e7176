"""Interrupts of a whole tree: bottom up, level by level, without stopping a session."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.testing import settle
from supervisor import InputTooLarge, InterruptReport, Ladder, Phase, Session, Supervisor
from supervisor.drivers.python import PythonDriver
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes, records, waiting_texts
from tests.support.fake_hooks import fence_actor
from tests.support.session_states import SlowStartAgent
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
        interrupted = (await records(session, "interrupted"))[0]
        assert (interrupted.body["scope"], interrupted.body["reason"]) == ("turn", "enough")
    await check_tree_counts(sup)


async def test_the_outcome_is_on_record_in_the_named_session_alone(
    sup: Supervisor, family: list[Session]
) -> None:
    root, child, *below = family
    await child.interrupt("tree", reason="enough")

    tree = [one for one in await records(child, "interrupted") if one.body["scope"] == "tree"]
    assert [dict(one.body) for one in tree] == [
        {
            "request": tree[0].body["request"],
            "scope": "tree",
            "reason": "enough",
            "step": "ask",
            "matched": 3,
            "stopped": 3,
            "already_over": 0,
            "unreachable": 0,
        }
    ]
    assert await records(root, "interrupted") == []
    assert [len(await records(one, "interrupted")) for one in below] == [1, 1]


async def test_unreachable_members_are_on_record_in_the_named_session(
    sup: Supervisor, fake_agent: FakeAgent, shielded_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=WIDE)
    await root.spawn("shielded", "x")
    await shielded_agent.next_run()
    await root.interrupt("tree")

    (tree,) = await records(root, "interrupted")
    counts = ("scope", "matched", "stopped", "unreachable")
    assert [tree.body[name] for name in counts] == ["tree", 1, 0, 1]


async def test_the_outcome_is_on_record_though_the_caller_gave_up(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=WIDE)
    await root.spawn("shielded", "x")
    await shielded_agent.next_run()
    with trio.move_on_after(1.0):
        await root.interrupt("tree")
    await trio.sleep(10.0)

    (tree,) = await records(root, "interrupted")
    assert (tree.body["scope"], tree.body["unreachable"]) == ("tree", 1)


async def test_a_refused_replacement_interrupts_no_member(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=WIDE, max_text_bytes=10)
    await root.send("go")
    await fake_agent.next_run()
    child = await root.spawn("child-agent", "x")
    await child_agent.next_run()
    with pytest.raises(InputTooLarge):
        await root.interrupt("tree", replace_with="much too long")

    assert [(await one.info()).phase for one in (root, child)] == ["running", "running"]
    assert await records(root, "interrupted") == []


@pytest.mark.parametrize("when", ["member", "top"])
async def test_a_tree_interrupt_survives_a_restart_of_an_actor(
    sup: Supervisor, fake_agent: FakeAgent, shielded_agent: FakeAgent, when: str
) -> None:
    root = await sup.create("fake", limits=WIDE)
    await root.send("go")
    await fake_agent.next_run()
    child = await root.spawn("shielded", "x")
    await shielded_agent.next_run()
    reports: list[InterruptReport] = []

    async def interrupt() -> None:
        reports.append(await root.interrupt("tree"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(interrupt)
        await trio.sleep(1.0)
        await fence_actor(sup, child if when == "member" else root)
    await settle()

    assert [one.scope for one in reports] == ["tree"]
    assert [(await one.info()).turn_id for one in (root, child)] == [None, None]
    assert isinstance(await root.spawn("child-agent", "after"), Session)


async def test_background_work_of_idle_members_ends(
    session: Session, child: Session, child_run: AgentRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[PythonDriver] = []

    def stop_background_work(driver: PythonDriver) -> None:
        ended.append(driver)

    monkeypatch.setattr(PythonDriver, "stop_background_work", stop_background_work)
    child_run.finish()
    await settle()
    before = len(await records(child))
    await session.interrupt("tree")

    assert len(ended) == 2
    assert len(await records(child)) == before


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


async def test_queues_of_members_without_a_turn_are_cancelled(
    session: Session, shielded_agent: FakeAgent
) -> None:
    child = await session.spawn("shielded", "x")
    await shielded_agent.next_run()
    await child.interrupt()  # its zombie prevents further turns
    later = await child.send("later")
    report = await session.interrupt("tree", queued="cancel")

    assert (report.matched, await waiting_texts(child)) == (0, [])
    assert (await outcomes(child))[later.input_id] == ["cancelled"]
    assert await records(session, "interrupted") == []


async def test_the_queue_of_a_member_that_does_not_start_is_cancelled(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    nursery.start_soon(session.spawn, "slow", "x")
    await settle()
    (child,) = [one for one in await all_infos(sup) if one.parent == session.id]
    report = await session.interrupt("tree", queued="cancel")

    assert (report.matched, report.seconds) == (0, 0.0)  # nothing to wait for
    assert await waiting_texts(sup.session(child.id)) == []
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("named", ["ancestor", "itself"])
async def test_a_cancelled_queue_of_a_starting_member_does_not_run(
    sup: Supervisor, session: Session, slow: SlowStartAgent, nursery: trio.Nursery, named: str
) -> None:
    nursery.start_soon(session.spawn, "slow", "x")
    await settle()
    (child,) = [sup.session(one.id) for one in await all_infos(sup) if one.parent == session.id]
    interrupted = session if named == "ancestor" else child
    nursery.start_soon(lambda: interrupted.interrupt("tree", queued="cancel"))
    await settle()
    slow.report_start()
    await settle()

    assert (await child.info()).phase == "idle"
    assert [one for (one,) in (await outcomes(child)).values()] == ["cancelled"]
    assert await records(child, "turn_started") == []


async def test_an_interrupt_that_keeps_queues_waits_for_a_member_that_starts(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    nursery.start_soon(session.spawn, "slow", "x")
    await settle()
    report = await session.interrupt("tree")

    assert (report.matched, report.seconds) == (0, Ladder().total_seconds)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("phase", ["suspended", "stopped"])
async def test_an_inactive_named_session_is_not_started_if_nothing_is_hit(
    sup: Supervisor, phase: str
) -> None:
    root = await sup.create("fake", suspend_after_seconds=60)
    await root.spawn("child-agent", "x", lifetime="detached")
    await settle()
    if phase == "stopped":
        await root.stop()
    for one in await all_infos(sup):
        await sup.session(one.id).interrupt()
    await trio.sleep(70.0)
    before = [(one.id, one.phase, one.last_seq, one.epoch) for one in await all_infos(sup)]
    report = await root.interrupt("tree", queued="cancel")
    await settle()

    assert (report.matched, (await root.info()).phase) == (0, phase)
    assert [(one.id, one.phase, one.last_seq, one.epoch) for one in await all_infos(sup)] == before


async def test_detached_members_of_a_stopped_session_are_interrupted_and_it_stays_stopped(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake")
    child = await root.spawn("child-agent", "x", lifetime="detached")
    await child_agent.next_run()
    await root.stop()
    report = await root.interrupt("tree")

    assert (report.matched, report.stopped) == (1, 1)
    assert [(await one.info()).phase for one in (root, child)] == ["stopped", "idle"]
    (tree,) = await records(root, "interrupted")
    assert (tree.body["scope"], tree.body["stopped"]) == ("tree", 1)


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
