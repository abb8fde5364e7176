"""Lifetimes: which sessions stop with their parent, and in which order."""

from __future__ import annotations

from functools import partial

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Limits,
    Phase,
    PythonAgent,
    Restart,
    Session,
    Supervisor,
    Turn,
)
from supervisor.drivers.python import AgentDied
from tests.support.fake_agents import AgentRun, FakeAgent, records, texts
from tests.support.session_states import NEVER, phase_of
from tests.support.tree_queries import (
    WIDE,
    all_at_once,
    all_infos,
    ask,
    check_tree_counts,
    make_suspended,
    order_of_ends,
    reason_of,
    refusal,
)

# With its parent ----------------------------------------------------------------------------------


async def test_stopping_a_parent_stops_all_descendants(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=WIDE)
    family = [root]
    for _ in range(6):
        family.append(await family[-1].spawn("child-agent", "deeper"))
    await root.stop()

    assert [await reason_of(one) for one in family] == ["user_cancelled"] + ["parent_stopped"] * 6
    await check_tree_counts(sup)


async def test_children_end_before_their_parents_and_the_youngest_first(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=WIDE)
    old, young = [await root.spawn("child-agent", "x") for _ in range(2)]
    olds = [await old.spawn("child-agent", "y") for _ in range(2)]
    youngs = [await young.spawn("child-agent", "y") for _ in range(2)]
    await root.stop()

    order = [one.id for one in (*reversed(youngs), young, *reversed(olds), old, root)]
    ended = await order_of_ends(sup)
    assert ended[-1] == root.id
    for earlier, later in [
        (youngs[1], youngs[0]),
        (youngs[0], young),
        (olds[1], olds[0]),
        (olds[0], old),
        (young, old),
    ]:
        assert ended.index(earlier.id) < ended.index(later.id)
    assert sorted(ended) == sorted(order)


async def test_the_youngest_child_ends_first_even_if_slowest(
    sup: Supervisor, session: Session, shielded_agent: FakeAgent
) -> None:
    quick = await session.spawn("child-agent", "x")
    stubborn = await session.spawn("shielded", "x")
    await shielded_agent.next_run()
    await session.stop()

    assert trio.current_time() == 5.0
    assert await order_of_ends(sup) == [stubborn.id, quick.id, session.id]


async def test_a_hundred_children_end_in_order(sup: Supervisor) -> None:
    limits = Limits(max_children=100, max_descendants=100)
    root = await sup.create("fake", limits=limits)
    children = [await root.spawn("child-agent", "x") for _ in range(100)]
    await root.stop()

    assert await order_of_ends(sup) == [one.id for one in (*reversed(children), root)]


async def test_idle_running_suspended_and_restarting_children_all_end(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=WIDE)
    suspended = await make_suspended(root, child_agent)
    idle = await root.spawn("child-agent", "x")
    (await child_agent.next_run()).finish()
    restarting = await root.spawn("child-agent", "x", restart=Restart(backoff_seconds=1000.0))
    (await child_agent.next_run()).fail(AgentDied("on purpose"))
    running = await root.spawn("child-agent", "x")
    await settle()
    children = (suspended, idle, restarting, running)
    before = [await phase_of(one) for one in children]
    await root.stop()

    assert before == ["suspended", "idle", "restarting", "running"]
    assert [await reason_of(one) for one in children] == ["parent_stopped"] * 4
    assert await order_of_ends(sup) == [one.id for one in (*reversed(children), root)]
    await check_tree_counts(sup)


async def test_queued_inputs_of_a_child_stopped_with_its_parent_are_cancelled(
    session: Session, child: Session, child_run: AgentRun
) -> None:
    await child.send("later")
    await session.stop()

    settled = await records(child, "input_settled")
    assert [one.body["outcome"] for one in settled] == ["delivered", "cancelled"]


async def test_children_run_until_their_parents_stop_after_the_turn(
    sup: Supervisor, session: Session, run: AgentRun, nursery: trio.Nursery
) -> None:
    child = sup.session((await run.do(run.turn.spawn("child-agent", "x"))).id)
    nursery.start_soon(partial(session.stop, when="after_turn"))
    await trio.sleep(100.0)
    during = (await child.info()).phase
    run.finish()
    await session.wait_stopped()

    assert during == "running"
    assert (await child.info()).stop_reason == "parent_stopped"


async def test_a_cancelled_caller_does_not_undo_the_stop_of_a_tree(
    sup: Supervisor, session: Session, shielded_agent: FakeAgent
) -> None:
    child = await session.spawn("shielded", "x")
    await shielded_agent.next_run()
    with trio.move_on_after(1.0):
        await session.stop()
    await session.wait_stopped()

    assert await reason_of(child) == "parent_stopped"


async def test_stopping_parents_and_children_at_once_ends_them_all(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=WIDE)
    family = [root]
    for number in range(12):
        family.append(await family[number // 2].spawn("child-agent", "x"))
    await all_at_once(*(one.stop for one in family), *(one.stop for one in reversed(family)))

    assert {one.phase for one in await all_infos(sup)} == {Phase.STOPPED}
    ended = await order_of_ends(sup)
    assert len(ended) == len(set(ended)) == len(family)
    for info in await all_infos(sup):
        assert info.parent is None or ended.index(info.id) < ended.index(info.parent)
    await check_tree_counts(sup)


async def test_a_spawn_below_a_stopping_parent_is_refused(
    session: Session, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    await session.spawn("shielded", "x")
    await shielded_agent.next_run()
    nursery.start_soon(session.stop)
    await trio.sleep(1.0)

    refused = await refusal(session.spawn("child-agent", "late"))
    assert refused.limit == "parent"


async def test_a_spawn_below_a_stopped_parent_is_refused(session: Session) -> None:
    await session.stop()

    assert (await refusal(session.spawn("child-agent", "late"))).limit == "parent"


async def test_a_parent_that_is_given_up_stops_its_children(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", restart=NEVER)
    child = await parent.spawn("child-agent", "x")
    await parent.send("go")
    (await fake_agent.next_run()).fail(AgentDied("on purpose"))
    await parent.wait_stopped()

    assert await reason_of(parent) == "agent_crashed"
    assert await reason_of(child) == "parent_stopped"
    assert await order_of_ends(sup) == [child.id, parent.id]
    await check_tree_counts(sup)


async def test_a_parent_that_is_restarted_keeps_its_children(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    parent = await sup.create("fake")
    child = await parent.spawn("child-agent", "x")
    await parent.send("go")
    (await fake_agent.next_run()).fail(AgentDied("on purpose"))
    await trio.sleep(10.0)

    assert (await parent.info()).restarts == 1
    assert await phase_of(child) == "running"


async def test_a_childs_crash_changes_nothing_for_its_parent_and_siblings(
    session: Session, child_agent: FakeAgent
) -> None:
    sibling = await session.spawn("child-agent", "x")
    await child_agent.next_run()
    child = await session.spawn("child-agent", "x", restart=NEVER)
    (await child_agent.next_run()).fail(AgentDied("on purpose"))
    await child.wait_stopped()
    await settle()

    assert await phase_of(session) == "idle"
    assert await phase_of(sibling) == "running"


async def test_interrupting_a_parent_does_not_interrupt_its_children(
    sup: Supervisor, session: Session, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "x"))
    run.begin(child.wait())
    at_work = await child_agent.next_run()
    report = await session.interrupt("turn")

    assert report.stopped == 1
    assert not at_work.over.is_set()
    assert (await sup.session(child.id).info()).phase == "running"


async def test_an_idle_parent_is_not_suspended_while_a_child_is_up(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", suspend_after_seconds=10.0)
    child = await parent.spawn("child-agent", "x")
    await trio.sleep(100.0)
    during = await phase_of(parent)
    await child.stop()
    await trio.sleep(100.0)

    assert during == "idle"
    assert await phase_of(parent) == "suspended"


# Stubborn children --------------------------------------------------------------------------------


async def test_a_child_that_ignores_cancellation_ends_by_the_ladder(
    sup: Supervisor, session: Session, shielded_agent: FakeAgent
) -> None:
    child = await session.spawn("shielded", "x")
    at_work = await shielded_agent.next_run()
    await session.stop()

    assert trio.current_time() == 5.0
    assert await reason_of(child) == "parent_stopped"
    assert not at_work.over.is_set()
    with pytest.raises(Exception, match="is over"):
        await at_work.do(at_work.turn.spawn("child-agent", "late"))
    assert texts(await records(child, "user_text")) == ["x"]


async def test_a_tree_that_ignores_cancellation_stops_in_bounded_time(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=WIDE)
    for _ in range(3):
        child = await root.spawn("shielded", "x")
        for _ in range(2):
            await child.spawn("shielded", "y")
    await settle()
    await root.stop()

    assert trio.current_time() == 5.0  # all are asked at once; none waits for another's patience
    assert {one.phase for one in await all_infos(sup)} == {Phase.STOPPED}


# Odd families -------------------------------------------------------------------------------------


async def test_a_detached_grandchild_survives_the_stop_of_its_tree(
    session: Session, child: Session
) -> None:
    apart = await child.spawn("child-agent", "y", lifetime="detached")
    await session.stop()

    assert await reason_of(child) == "parent_stopped"
    assert await phase_of(apart) == "running"


async def test_a_child_that_stops_its_parent_is_stopped() -> None:
    held: list[Session] = []

    async def rebel(_: Turn) -> None:
        await held[0].stop()

    async with supervisor.open(":memory:", agents=[PythonAgent("rebel", rebel)]) as sup:
        held.append(await sup.create("echo"))
        child = await held[0].spawn("rebel", "stop it")
        await held[0].wait_stopped()

        assert await reason_of(held[0]) == "user_cancelled"
        assert await reason_of(child) == "parent_stopped"


async def test_requests_of_a_child_stopped_with_its_parent_are_cancelled(
    sup: Supervisor, session: Session, child: Session, child_run: AgentRun
) -> None:
    await ask(child_run)
    before = await sup.permissions()
    await session.stop()

    assert [one.session_id for one in before] == [child.id]
    assert await sup.permissions() == ()


async def test_leaving_suspends_a_tree_and_stops_no_session(
    sup: Supervisor, session: Session, child: Session, child_run: AgentRun
) -> None:
    await child.spawn("child-agent", "y")
    await sup.drain()

    assert {one.phase for one in await all_infos(sup)} == {Phase.SUSPENDED}
    (ended,) = await records(child, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
