"""Places: left while a child sleeps, waited for when it wakes, and given back exactly once."""

from __future__ import annotations

from functools import partial

import pytest
import trio

import supervisor
from actors.testing import explore, settle
from supervisor import Limits, Restart, Session, Supervisor
from supervisor.drivers.python import AgentDied
from tests.sessions.cast import Player, Scene, outcomes
from tests.sessions.family.kin import (
    WIDE,
    all_at_once,
    ledger_of,
    make_suspended,
    refusal,
    refuse_false_books,
    spawn_many,
)
from tests.sessions.lives import phase_of

# Suspended children -------------------------------------------------------------------------------


async def test_a_suspended_child_makes_room_for_another(sup: Supervisor, kid: Player) -> None:
    parent = await sup.create("player", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, kid)

    other = await parent.spawn("kid", "other")

    assert (await parent.info()).children == (other.id,)
    assert await phase_of(sleeper) == "suspended"
    await refuse_false_books(sup)


async def test_a_suspended_child_is_still_a_descendant(sup: Supervisor, kid: Player) -> None:
    parent = await sup.create("player", limits=Limits(max_descendants=1))
    await make_suspended(parent, kid)

    assert (await refusal(parent.spawn("kid", "x"))).limit == "max_descendants"


async def test_a_suspended_child_waits_for_a_place_and_then_runs(
    sup: Supervisor, kid: Player
) -> None:
    parent = await sup.create("player", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, kid)
    other = await parent.spawn("kid", "other")
    receipt = await sleeper.send("wake up")
    waiting = await sleeper.info()
    await other.stop()
    await settle()

    assert (receipt.status, waiting.phase, waiting.queued) == ("queued", "suspended", 1)
    assert waiting.waiting_for == "a place among its parent's children"
    assert await phase_of(sleeper) == "running"
    await refuse_false_books(sup)


async def test_those_who_wait_for_places_come_in_one_for_one_and_in_order(
    sup: Supervisor, kid: Player
) -> None:
    parent = await sup.create("player", limits=Limits(max_children=1))
    sleepers = [await make_suspended(parent, kid) for _ in range(3)]
    other = await parent.spawn("kid", "other")
    await kid.next_scene()
    for sleeper in sleepers:
        await sleeper.send("wake up")

    seen = []
    await other.stop()
    for _ in sleepers:
        at_work = await kid.next_scene()
        seen.append(at_work.turn.session_id)
        assert len((await parent.info()).children) == 1
        await sup.session(at_work.turn.session_id).stop()

    assert seen == [sleeper.id for sleeper in sleepers]


async def test_raising_the_limit_wakes_whoever_waits_for_a_place(
    sup: Supervisor, kid: Player
) -> None:
    parent = await sup.create("player", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, kid)
    await parent.spawn("kid", "other")
    await sleeper.send("wake up")
    await parent.set(limits=Limits(max_children=2))
    await settle()

    assert await phase_of(sleeper) == "running"


async def test_waking_many_at_once_never_exceeds_the_cap(sup: Supervisor, kid: Player) -> None:
    parent = await sup.create("player", limits=Limits(max_children=2))
    sleepers = [await make_suspended(parent, kid) for _ in range(8)]

    await all_at_once(*(partial(one.send, "wake up") for one in sleepers))
    await settle()

    assert len((await parent.info()).children) == 2
    await refuse_false_books(sup)


# Given back ---------------------------------------------------------------------------------------


ENDS = ("stop", "crash", "ttl", "tokens", "delete", "parent")


@pytest.mark.parametrize("end", ENDS)
async def test_a_place_comes_back_once_after_every_kind_of_end(
    sup: Supervisor, kid: Player, end: str
) -> None:
    root = await sup.create("player", limits=Limits(max_descendants=2, max_children=1))
    top = await root.spawn("kid", "top", lifetime="with_parent")
    await kid.next_scene()
    limits = Limits(tokens=10) if end == "tokens" else None
    ttl_seconds = 5.0 if end == "ttl" else None
    restart = Restart(policy="never")
    child = await top.spawn("kid", "x", limits=limits, ttl_seconds=ttl_seconds, restart=restart)
    await bring_about(sup, end, top, child, await kid.next_scene())
    await settle()
    await refuse_false_books(sup)

    above = root if end == "parent" else top
    await above.spawn("kid", "again")
    assert (await refusal(above.spawn("kid", "too many"))).limit == "max_children"
    await refuse_false_books(sup)


async def bring_about(sup: Supervisor, end: str, top: Session, child: Session, at: Scene) -> None:
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
    roots = [await sup.create("player", limits=WIDE) for _ in range(3)]
    for root in roots:
        await spawn_many(root, 10)
    await all_at_once(*(root.stop for root in roots))

    ledger = ledger_of(sup)
    assert (ledger.live, ledger.turns) == (set(), {})
    await refuse_false_books(sup)


async def test_stopping_twice_gives_one_place_back(sup: Supervisor) -> None:
    parent = await sup.create("player", limits=Limits(max_children=2))
    one, _ = [await parent.spawn("kid", "x") for _ in range(2)]
    await all_at_once(*[one.stop] * 10)
    await all_at_once(*[one.stop] * 3)

    assert await spawn_many(parent, 5) == {"Session": 1, "max_children": 4}


async def test_coming_back_takes_a_place_again(sup: Supervisor) -> None:
    parent = await sup.create("player", limits=Limits(max_children=1))
    child = await parent.spawn("kid", "x")
    await child.stop()
    await child.resume()

    assert (await refusal(parent.spawn("kid", "y"))).limit == "max_children"
    await refuse_false_books(sup)


async def test_coming_back_needs_a_place(sup: Supervisor) -> None:
    parent = await sup.create("player", limits=Limits(max_children=1))
    gone = await parent.spawn("kid", "x")
    await gone.stop()
    await parent.spawn("kid", "y")

    for way in (gone.resume(), gone.send("come back")):
        assert (await refusal(way)).limit == "max_children"
    await refuse_false_books(sup)


async def test_coming_back_many_times_at_once_takes_one_place(sup: Supervisor) -> None:
    parent = await sup.create("player", limits=Limits(max_children=2))
    child = await parent.spawn("kid", "x")
    await child.stop()
    await all_at_once(*[child.resume] * 20, *[partial(child.send, "x")] * 5)

    assert await spawn_many(parent, 5) == {"Session": 1, "max_children": 4}
    await refuse_false_books(sup)


async def test_a_spawn_that_has_to_wake_its_parent_names_the_place_it_lacks(
    sup: Supervisor, kid: Player
) -> None:
    root = await sup.create("player", limits=Limits(max_children=1))
    middle = await make_suspended(root, kid)
    await root.spawn("kid", "other")
    refused = await refusal(middle.spawn("kid", "below"))

    assert (refused.limit, refused.used, refused.allowed) == ("max_children", 1, 1)
    assert await phase_of(middle) == "suspended"
    await refuse_false_books(sup)


async def test_who_waits_for_a_place_when_its_parent_stops_ends_too(
    sup: Supervisor, kid: Player
) -> None:
    parent = await sup.create("player", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, kid)
    await parent.spawn("kid", "other")
    await sleeper.send("wake up")
    await parent.stop()

    info = await sleeper.info()
    assert (info.stop_reason, info.queued) == ("parent_stopped", 0)
    await refuse_false_books(sup)


async def test_an_input_that_expires_while_it_waits_for_a_place_takes_none(
    sup: Supervisor, kid: Player
) -> None:
    parent = await sup.create("player", limits=Limits(max_children=1))
    sleeper = await make_suspended(parent, kid)
    other = await parent.spawn("kid", "other")
    await sleeper.send("wake up", ttl_seconds=10.0)
    await trio.sleep(20.0)
    await other.stop()
    await settle()

    assert (await sleeper.info()).phase == "suspended"
    assert list((await outcomes(sleeper)).values()) == [["delivered"], ["expired"]]
    await refuse_false_books(sup)


# Under many schedules -----------------------------------------------------------------------------


async def fill(sup: Supervisor, kid: Player, places: int) -> tuple[Session, list[Session]]:
    """A parent with all places taken, and as many suspended children that wait for one."""
    parent = await sup.create("echo", limits=Limits(max_children=places))
    sleepers = [await make_suspended(parent, kid) for _ in range(places)]
    for _ in range(places):
        await parent.spawn("kid", "other")
    for sleeper in sleepers:
        await sleeper.send("wake up")
    return parent, sleepers


def test_leaving_ends_though_several_wait_for_a_place() -> None:
    """A run that never ends is noticed by the simulator."""

    async def main() -> None:
        kid = Player("kid")
        async with supervisor.open(":memory:", agents=[kid.agent]) as sup:
            await fill(sup, kid, 2)
            await settle()
            kid.dismiss()

    assert explore(main, seeds=range(9), max_steps=20_000, early_timeouts=False) == []


def test_who_waits_for_a_place_begins_nothing_when_its_parent_stops() -> None:
    async def main() -> None:
        kid = Player("kid")
        async with supervisor.open(":memory:", agents=[kid.agent]) as sup:
            parent, (sleeper,) = await fill(sup, kid, 1)
            await parent.stop()
            found = await outcomes(sleeper)
            assert list(found.values()) == [["delivered"], ["cancelled"]]

    assert explore(main, seeds=range(30), max_steps=20_000, early_timeouts=False) == []
