"""Crash storms against a budget: not one restart too many, not given up too soon, heard once."""

import math
import random

import trio

from actors import GaveUp, GroupSpec, Ref, RestartPolicy
from tests.simulation.inside import cell_of
from tests.simulation.ledger import Life
from tests.simulation.player import SLOW, Temper
from tests.simulation.stage import Stage, open_stage, wander

SHORT = Temper(start=("note", "pause"), stop=("note", "pause", "crash"))
FRAIL = Temper(start=("note", "note", "pause", "crash"), stop=("note", "pause", "crash"))


async def spend_the_budget() -> None:
    someone_waits = random.random() < 0.5
    async with open_stage() as stage:
        refs = [ref for name in ("ann", "bob") if (ref := await start_one(stage, name))]
        bystander = await stage.start("eve", temper=SLOW)
        assert bystander is not None
        async with trio.open_nursery() as nursery:
            if someone_waits:
                for ref in refs:
                    nursery.start_soon(wait_for, stage, ref)
                await stage.quiet()  # they wait from now on
            for ref in refs:
                nursery.start_soon(storm, stage, ref)
        await stage.quiet()
    for ref in refs:
        check_budget(stage, stage.ledger.by_cell[cell_of(ref)])
    check_climbing(stage, refs, someone_waits=someone_waits)
    eve = stage.ledger.by_cell[cell_of(bystander)]
    stage.ledger.check(eve.made == 1 and not eve.own_ends, "a bystander was touched")
    stage.ledger.close()


async def start_one(stage: Stage, name: str) -> Ref | None:
    within_seconds = random.choice((0.5, 1.5, math.inf))
    policy = RestartPolicy(
        random.choice(("permanent", "transient")),
        max_restarts=random.randrange(3),
        within_seconds=within_seconds,
        backoff_seconds=random.choice((0.0, 0.5)),
    )
    # A failed restart counts when its supervisor hears of it, and time may have jumped till then:
    # so where instants matter, starts succeed.
    temper = FRAIL if within_seconds == math.inf else SHORT
    return await stage.start(name, temper=temper, policy=policy)


async def storm(stage: Stage, ref: Ref) -> None:
    for _ in range(5):
        stage.tell(ref, random.choice(("crash", "crash", "note", "quit")))
        await wander()
    await stage.stop(ref)


async def wait_for(stage: Stage, ref: Ref) -> None:
    try:
        await ref.wait_stopped()
    except GaveUp as gave_up:
        stage.ledger.check(gave_up.name == ref.name, f"{ref.name} heard of {gave_up.name}")


def check_budget(stage: Stage, life: Life) -> None:
    """What was restarted was within the budget; what was given up was beyond it."""
    policy, cell = life.policy, life.cell
    assert cell is not None
    restarted_at = life.ended_at[: life.made - 1]
    for place, now in enumerate(restarted_at, 1):
        spent = sum(now - at <= policy.within_seconds for at in restarted_at[:place])
        stage.ledger.check(
            spent <= policy.max_restarts,
            f"{life.name} came back {spent} times within {policy.within_seconds} s",
        )
    if isinstance(cell.reason, GaveUp):
        last = life.ended_at[-(policy.max_restarts + 1) :]
        spent = sum(last[-1] - at <= policy.within_seconds for at in last)
        stage.ledger.check(spent > policy.max_restarts, f"{life.name} was given up too soon")


def check_climbing(stage: Stage, refs: list[Ref], *, someone_waits: bool) -> None:
    given_up = [ref.name for ref in refs if isinstance(cell_of(ref).reason, GaveUp)]
    climbed = stage.climbed
    if climbed is None:
        stage.ledger.check(someone_waits or not given_up, f"{given_up} fell and nobody heard")
    else:
        stage.ledger.check(
            climbed.name in given_up, f"{climbed.name} climbed, and was not given up"
        )
        stage.ledger.check(not someone_waits, f"{climbed.name} climbed past those who wait for it")


async def spend_the_budget_of_a_tree() -> None:
    """An inner group that falls is one end for the outer one: not two, and not none."""
    inner_max, outer_max = random.randrange(3), random.randrange(2)
    async with open_stage() as stage:
        inner = GroupSpec(
            [stage.spec(name, temper=SLOW) for name in "ab"],
            strategy=random.choice(("one_for_one", "one_for_all", "rest_for_one")),
            max_restarts=inner_max,
            within_seconds=math.inf,
        )
        outer = GroupSpec(
            [stage.spec("c", temper=SLOW), stage.member("inner", inner)],
            strategy=random.choice(("one_for_one", "one_for_all", "rest_for_one")),
            max_restarts=outer_max,
            within_seconds=math.inf,
        )
        top = await stage.start_group("outer", outer, within=stage.system)
        assert top is not None
        async with trio.open_nursery() as nursery:
            for name in "ab":
                nursery.start_soon(crash_often, stage, top.group("inner")[name])
        await stage.quiet()
    members = [life for life in stage.ledger.lives if life.name in "ab"]
    crashes = sum(life.own_ends for life in members)
    allowed = (inner_max + 1) * (outer_max + 1)
    if stage.climbed is not None:
        stage.ledger.check(stage.climbed.name == "outer", f"{stage.climbed.name} climbed")
        stage.ledger.check(crashes >= allowed, f"given up after {crashes} ends of {allowed}")
    for life in members:
        stage.ledger.check(life.made <= allowed, f"{life.name} was made {life.made} times")
    stage.ledger.close()


async def crash_often(stage: Stage, ref: Ref) -> None:
    for _ in range(4):
        stage.tell(ref, "crash")
        await wander()
