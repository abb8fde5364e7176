"""Places: left while a child sleeps, waited for when it wakes, and given back exactly once."""

from __future__ import annotations

from functools import partial

import pytest
import trio

import supervisor
from actors.testing import explore, settle
from supervisor import Limits, Restart, Session, Supervisor
from supervisor.drivers.python import AgentDied
from tests.support.fake_agents import AgentRun, FakeAgent, outcomes
from tests.support.session_states import phase_of
from tests.support.tree_queries import (
    WIDE,
    all_at_once,
    check_tree_counts,
    make_suspended,
    refusal,
    spawn_many,
    tree_of,
)

# Suspended children -------------------------------------------------------------------------------


async def test_a_suspended_child_makes_room_for_another(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, child_agent)

    other = await parent.spawn("child-agent", "other")

    assert (await parent.info()).children == (other.id,)
    assert await phase_of(sleeper) == "suspended"
    await check_tree_counts(sup)


async def test_a_suspended_child_is_still_a_descendant(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_descendants=1))
    await make_suspended(parent, child_agent)

    assert (await refusal(parent.spawn("child-agent", "x"))).limit == "max_descendants"


async def test_a_suspended_child_waits_for_a_child_slot_and_then_runs(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, child_agent)
    other = await parent.spawn("child-agent", "other")
    receipt = await sleeper.send("wake up")
    waiting = await sleeper.info()
    await other.stop()
    await settle()

    assert (receipt.status, waiting.phase, waiting.queued) == ("queued", "suspended", 1)
    assert waiting.waiting_for == "child_slot"
    assert await phase_of(sleeper) == "running"
    await check_tree_counts(sup)


async def test_children_waiting_for_slots_get_them_in_order(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    sleepers = [await make_suspended(parent, child_agent) for _ in range(3)]
    other = await parent.spawn("child-agent", "other")
    await child_agent.next_run()
    for sleeper in sleepers:
        await sleeper.send("wake up")

    seen = []
    await other.stop()
    for _ in sleepers:
        at_work = await child_agent.next_run()
        seen.append(at_work.turn.session_id)
        assert len((await parent.info()).children) == 1
        await sup.session(at_work.turn.session_id).stop()

    assert seen == [sleeper.id for sleeper in sleepers]


async def test_raising_max_children_wakes_children_waiting_for_a_slot(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, child_agent)
    await parent.spawn("child-agent", "other")
    await sleeper.send("wake up")
    await parent.set(limits=Limits(max_children=2))
    await settle()

    assert await phase_of(sleeper) == "running"


async def test_waking_many_at_once_never_exceeds_the_cap(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=2))
    sleepers = [await make_suspended(parent, child_agent) for _ in range(8)]

    await all_at_once(*(partial(one.send, "wake up") for one in sleepers))
    await settle()

    assert len((await parent.info()).children) == 2
    await check_tree_counts(sup)


# Given back ---------------------------------------------------------------------------------------


ENDS = ("stop", "crash", "ttl", "tokens", "delete", "parent")


@pytest.mark.parametrize("end", ENDS)
async def test_a_child_slot_is_released_once_after_every_end(
    sup: Supervisor, child_agent: FakeAgent, end: str
) -> None:
    root = await sup.create("fake", limits=Limits(max_descendants=2, max_children=1))
    top = await root.spawn("child-agent", "top", lifetime="with_parent")
    await child_agent.next_run()
    limits = Limits(tokens=10) if end == "tokens" else None
    ttl_seconds = 5.0 if end == "ttl" else None
    restart = Restart(policy="never")
    child = await top.spawn(
        "child-agent", "x", limits=limits, ttl_seconds=ttl_seconds, restart=restart
    )
    await bring_about(sup, end, top, child, await child_agent.next_run())
    await settle()
    await check_tree_counts(sup)

    above = root if end == "parent" else top
    await above.spawn("child-agent", "again")
    assert (await refusal(above.spawn("child-agent", "too many"))).limit == "max_children"
    await check_tree_counts(sup)


async def bring_about(
    sup: Supervisor, end: str, top: Session, child: Session, at: AgentRun
) -> None:
    match end:
        case "stop":
            await child.stop()
        case "crash":
            at.fail(AgentDied("on purpose"))
        case "ttl":
            await trio.sleep(6.0)
        case "tokens":
            at.turn.usage(output_tokens=10)
        case "delete":
            await sup.delete(child.id)
        case "parent":
            await top.stop()
    if end != "delete":
        await child.wait_stopped()


async def test_all_places_are_free_when_all_have_stopped(sup: Supervisor) -> None:
    roots = [await sup.create("fake", limits=WIDE) for _ in range(3)]
    for root in roots:
        await spawn_many(root, 10)
    await all_at_once(*(root.stop for root in roots))

    ledger = tree_of(sup)
    assert (ledger.live, ledger.turn_slots) == (set(), {})
    await check_tree_counts(sup)


async def test_stopping_twice_releases_one_slot(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=2))
    one, _ = [await parent.spawn("child-agent", "x") for _ in range(2)]
    await all_at_once(*[one.stop] * 10)
    await all_at_once(*[one.stop] * 3)

    assert await spawn_many(parent, 5) == {"Session": 1, "max_children": 4}


async def test_resuming_takes_a_child_slot_again(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    child = await parent.spawn("child-agent", "x")
    await child.stop()
    await child.resume()

    assert (await refusal(parent.spawn("child-agent", "y"))).limit == "max_children"
    await check_tree_counts(sup)


async def test_resuming_needs_a_child_slot(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    gone = await parent.spawn("child-agent", "x")
    await gone.stop()
    await parent.spawn("child-agent", "y")

    for way in (gone.resume(), gone.send("come back")):
        assert (await refusal(way)).limit == "max_children"
    await check_tree_counts(sup)


async def test_concurrent_resumes_take_one_child_slot(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=2))
    child = await parent.spawn("child-agent", "x")
    await child.stop()
    await all_at_once(*[child.resume] * 20, *[partial(child.send, "x")] * 5)

    assert await spawn_many(parent, 5) == {"Session": 1, "max_children": 4}
    await check_tree_counts(sup)


async def test_a_spawn_that_cannot_wake_its_parent_names_the_missing_slot(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(max_children=1))
    middle = await make_suspended(root, child_agent)
    await root.spawn("child-agent", "other")
    refused = await refusal(middle.spawn("child-agent", "below"))

    assert (refused.limit, refused.used, refused.allowed) == ("max_children", 1, 1)
    assert await phase_of(middle) == "suspended"
    await check_tree_counts(sup)


async def test_a_child_waiting_for_a_slot_stops_with_its_parent(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, child_agent)
    await parent.spawn("child-agent", "other")
    await sleeper.send("wake up")
    await parent.stop()

    info = await sleeper.info()
    assert (info.stop_reason, info.queued) == ("parent_stopped", 0)
    await check_tree_counts(sup)


async def test_an_input_that_expires_while_waiting_takes_no_slot(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, child_agent)
    other = await parent.spawn("child-agent", "other")
    await sleeper.send("wake up", ttl_seconds=10.0)
    await trio.sleep(20.0)
    await other.stop()
    await settle()

    assert (await sleeper.info()).phase == "suspended"
    assert list((await outcomes(sleeper)).values()) == [["delivered"], ["expired"]]
    await check_tree_counts(sup)


# Under many schedules -----------------------------------------------------------------------------


async def fill(
    sup: Supervisor, child_agent: FakeAgent, places: int
) -> tuple[Session, list[Session]]:
    """A parent with all places taken, and as many suspended children that wait for one."""
    parent = await sup.create("echo", limits=Limits(max_children=places))
    sleepers = [await make_suspended(parent, child_agent) for _ in range(places)]
    for _ in range(places):
        await parent.spawn("child-agent", "other")
    for sleeper in sleepers:
        await sleeper.send("wake up")
    return parent, sleepers


def test_leaving_ends_while_children_wait_for_slots() -> None:
    """A run that never ends is noticed by the simulator."""

    async def main() -> None:
        child_agent = FakeAgent("child-agent")
        async with supervisor.open(":memory:", agents=[child_agent.agent]) as sup:
            await fill(sup, child_agent, 2)
            await settle()
            child_agent.finish_open_runs()

    assert explore(main, seeds=range(9), max_steps=20_000) == []


def test_a_child_without_a_slot_starts_no_turn_after_its_parents_stop() -> None:
    async def main() -> None:
        child_agent = FakeAgent("child-agent")
        async with supervisor.open(":memory:", agents=[child_agent.agent]) as sup:
            parent, (sleeper,) = await fill(sup, child_agent, 1)
            await parent.stop()
            found = await outcomes(sleeper)
            assert list(found.values()) == [["delivered"], ["cancelled"]]

    assert explore(main, seeds=range(30), max_steps=20_000) == []
