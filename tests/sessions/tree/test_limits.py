"""Caps of a tree: exact however many ask at once, and refused with reasons."""

from __future__ import annotations

from functools import partial

import trio

from actors.testing import settle
from supervisor import Limits, SpawnRefused, Supervisor
from tests.support.fake_agents import FakeAgent, records
from tests.support.session_states import phase_of
from tests.support.tree_queries import (
    WIDE,
    all_at_once,
    all_infos,
    check_tree_counts,
    outcome_of,
    refusal,
    spawn_many,
)

# What is refused ----------------------------------------------------------------------------------


async def test_children_are_counted(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=2))
    await parent.spawn("child-agent", "one")
    await parent.spawn("child-agent", "two")

    refused = await refusal(parent.spawn("child-agent", "three"))

    assert (refused.limit, refused.used, refused.allowed) == ("max_children", 2, 2)
    assert "stop one" in refused.hint


async def test_depth_is_counted_from_the_root(sup: Supervisor) -> None:
    at = await sup.create("fake", limits=Limits(max_depth=2))
    for _ in range(2):
        at = await at.spawn("child-agent", "deeper")

    refused = await refusal(at.spawn("child-agent", "too deep"))

    assert (refused.limit, refused.used, refused.allowed) == ("max_depth", 2, 2)
    assert (await at.info()).depth == 2


async def test_descendants_are_counted_over_the_whole_tree(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=Limits(max_descendants=3))
    one = await root.spawn("child-agent", "one")
    two = await root.spawn("child-agent", "two")
    await one.spawn("child-agent", "below one")

    refused = await refusal(two.spawn("child-agent", "below two"))

    assert (refused.limit, refused.used, refused.allowed) == ("max_descendants", 3, 3)


async def test_spawns_are_counted_for_ever(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=Limits(max_spawns=3))
    for _ in range(3):
        child = await root.spawn("child-agent", "x")
        await child.stop()

    refused = await refusal(root.spawn("child-agent", "x"))

    assert (refused.limit, refused.used, refused.allowed) == ("max_spawns", 3, 3)


async def test_deleted_children_still_count_as_spawns(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=Limits(max_spawns=2))
    child = await root.spawn("child-agent", "x")
    await child.spawn("child-agent", "y")
    await sup.delete(child.id)

    assert (await refusal(root.spawn("child-agent", "x"))).limit == "max_spawns"


async def test_the_own_limits_of_a_child_stay_within_its_parents(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=Limits(max_depth=2, max_children=1))
    child = await root.spawn("child-agent", "x", limits=WIDE)
    limits = (await child.info()).limits

    assert (limits.max_depth, limits.max_children) == (2, 1)


async def test_limits_of_a_child_bind_it_and_its_descendants(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=WIDE)
    child = await root.spawn("child-agent", "x", limits=Limits(max_descendants=1))
    below = await child.spawn("child-agent", "y")

    assert (await refusal(below.spawn("child-agent", "z"))).limit == "max_descendants"
    await root.spawn("child-agent", "elsewhere")


async def test_limits_set_on_a_child_reach_no_further_than_its_parents(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=Limits(max_depth=1))
    child = await root.spawn("child-agent", "x")
    await all_at_once(partial(child.set, limits=WIDE))

    assert (await refusal(child.spawn("child-agent", "too deep"))).limit == "max_depth"


async def test_a_depth_lowered_at_the_root_holds_for_all_below(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=Limits(max_depth=3))
    child = await root.spawn("child-agent", "x", limits=Limits(max_depth=3))
    await root.set(limits=Limits(max_depth=1))

    assert (await refusal(child.spawn("child-agent", "too deep"))).limit == "max_depth"


async def test_raising_a_limit_admits_the_next_child(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=0))
    await refusal(parent.spawn("child-agent", "x"))
    await parent.set(limits=Limits(max_children=1))

    assert await phase_of(await parent.spawn("child-agent", "x")) == "running"


async def test_every_refusal_is_recorded_before_it_is_raised(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    await spawn_many(parent, 4)

    found = await records(parent, "spawn_refused")
    assert [one.body["limit"] for one in found] == ["max_children"] * 3
    assert [(one.body["used"], one.body["allowed"]) for one in found] == [(1, 1)] * 3


async def test_a_refused_spawn_is_recorded_by_a_suspended_parent(sup: Supervisor) -> None:
    limits = Limits(max_children=0)
    parent = await sup.create("fake", limits=limits, suspend_after_seconds=1.0)
    await trio.sleep(5.0)
    await refusal(parent.spawn("child-agent", "x"))

    assert len(await records(parent, "spawn_refused")) == 1


# Many at once -------------------------------------------------------------------------------------


async def test_hundreds_of_concurrent_spawns_fill_max_children_exactly(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=7))

    assert await spawn_many(parent, 300) == {"Session": 7, "max_children": 293}
    assert len((await parent.info()).children) == 7
    await check_tree_counts(sup)


async def test_hundreds_of_spawns_inside_a_turn_fill_max_children_exactly(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=7))
    await parent.send("go")
    run = await fake_agent.next_run()

    actions = [run.begin(run.turn.spawn("child-agent", "x")) for _ in range(200)]
    results = outcome_of(await all_at_once(*[action.wait for action in actions]))

    assert results == {"Child": 7, "max_children": 193}
    await check_tree_counts(sup)


async def test_spawners_all_over_a_tree_fill_its_root_exactly(sup: Supervisor) -> None:
    root = await sup.create("fake", limits=Limits(max_children=100, max_descendants=20))
    children = [await root.spawn("child-agent", "x") for _ in range(5)]

    spawns = [
        partial(one.spawn, "child-agent", "y") for one in (root, *children) for _ in range(40)
    ]
    results = outcome_of(await all_at_once(*spawns))

    assert results == {"Session": 15, "max_descendants": 225}
    await check_tree_counts(sup)


async def test_spawns_at_once_never_exceed_the_total(sup: Supervisor) -> None:
    limits = Limits(max_children=100, max_descendants=100, max_spawns=9)
    root = await sup.create("fake", limits=limits)

    assert await spawn_many(root, 100) == {"Session": 9, "max_spawns": 91}


async def test_children_that_end_and_begin_at_once_never_exceed_the_cap(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=attr_limits(max_children=3))
    most = 0

    async def come_and_go() -> None:
        nonlocal most
        for _ in range(10):
            try:
                child = await parent.spawn("child-agent", "x")
            except SpawnRefused:
                await trio.sleep(0.1)
                continue
            most = max(most, len((await parent.info()).children))
            await child.stop()

    await all_at_once(*[come_and_go] * 20)

    assert most == 3
    assert (await parent.info()).children == ()
    await check_tree_counts(sup)


def attr_limits(**more: int) -> Limits:
    return Limits(**{"max_spawns": 10_000, "max_descendants": 10_000, **more})


async def test_a_tree_of_spawning_agents_stays_within_its_root(sup: Supervisor) -> None:
    """Every agent spawns another as often as it can, which does the same: the limits end it."""
    root = await sup.create(
        "spawner", limits=Limits(max_depth=4, max_children=2, max_descendants=12)
    )
    await root.prompt("multiply")
    await settle()

    infos = await all_infos(sup)
    assert max(info.depth for info in infos) == 4
    assert len(infos) - 1 == 12
    await check_tree_counts(sup)
