"""Many starters want few names; on_start fails, hangs and is given up; some stop it half way."""

import random

import trio

import actors
from actors import Group, GroupSpec, RestartPolicy
from actors._cell import Cell
from tests.simulation.inside import group_of
from tests.simulation.player import SLOW, STUBBORN
from tests.simulation.stage import Stage, impatiently, open_stage, wander

NAMES = ("ann", "bob")


async def start_in_a_hurry() -> None:
    async with open_stage() as stage:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(impatiently, start_one, stage)
            nursery.start_soon(impatiently, start_a_group, stage)
            nursery.start_soon(stop_someone, stage)
        await stage.quiet()


async def start_one(stage: Stage) -> None:
    await wander()
    try:
        ref = await stage.start(
            random.choice(NAMES),
            temper=random.choice((SLOW, STUBBORN)),
            policy=RestartPolicy("temporary"),
        )
    except actors.NameTaken as taken:
        if taken.name not in stage.system:
            # It may have gone since, but not without a step in between.
            stage.ledger.check(holds=False, otherwise=f"{taken.name} was refused and is free")
        return
    if ref is not None and random.random() < 0.5:
        await stage.stop(ref)


async def start_a_group(stage: Stage) -> None:
    members = [
        stage.spec(f"member-{number}", temper=random.choice((SLOW, STUBBORN)), kind="temporary")
        for number in range(3)
    ]
    await wander()
    group = await stage.start_group("group", GroupSpec(members), within=stage.system)
    if group is not None:
        await start_late(stage, group)


async def start_late(stage: Stage, group: Group) -> None:
    await stage.start("late", group=group, temper=STUBBORN, policy=RestartPolicy("temporary"))
    await stage.stop_group(group)


async def stop_someone(stage: Stage) -> None:
    """Also one that is only just starting, whom only the runtime knows yet."""
    for _ in range(2):
        await wander()
        name = random.choice(NAMES)
        child = group_of(stage.system).find(name)
        if isinstance(child, Cell):
            stage.ledger.stopped.add(child)
            child.ref.stop_nowait()
            stage.ledger.check(child.mailbox.closed, f"{name} was stopped and takes messages")
