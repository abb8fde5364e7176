"""Concurrent starts with few names; on_start fails, hangs, is cancelled or stopped."""

import random

import trio

import actors
from actors import Group, GroupSpec, RestartPolicy
from actors._cell import Cell
from tests.simulation.actors.harness import Harness, open_harness
from tests.simulation.actors.internals import group_of
from tests.simulation.actors.scripted_actor import SLOW, STUBBORN
from tests.simulation.timing import random_pause, with_random_timeout

NAMES = ("ann", "bob")


async def race_starts() -> None:
    async with open_harness() as harness:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(with_random_timeout, start_one, harness)
            nursery.start_soon(with_random_timeout, start_a_group, harness)
            nursery.start_soon(stop_someone, harness)
        await harness.quiet()


async def start_one(harness: Harness) -> None:
    await random_pause()
    try:
        ref = await harness.start(
            random.choice(NAMES),
            behaviour=random.choice((SLOW, STUBBORN)),
            policy=RestartPolicy("temporary"),
        )
    except actors.NameTaken as taken:
        if taken.name not in harness.system:
            # It may have ended since, but not without a step in between.
            harness.oracle.check(
                holds=False, message=f"{taken.name} was refused as taken and is free"
            )
        return
    if ref is not None and random.random() < 0.5:
        await harness.stop(ref)


async def start_a_group(harness: Harness) -> None:
    members = [
        harness.spec(
            f"member-{number}", behaviour=random.choice((SLOW, STUBBORN)), kind="temporary"
        )
        for number in range(3)
    ]
    await random_pause()
    group = await harness.start_group("group", GroupSpec(members), within=harness.system)
    if group is not None:
        await start_late(harness, group)


async def start_late(harness: Harness, group: Group) -> None:
    await harness.start("late", group=group, behaviour=STUBBORN, policy=RestartPolicy("temporary"))
    await harness.stop_group(group)


async def stop_someone(harness: Harness) -> None:
    """Stop random actors, also one that is still starting and has no reference yet."""
    for _ in range(2):
        await random_pause()
        name = random.choice(NAMES)
        child = group_of(harness.system).find(name)
        if isinstance(child, Cell):
            harness.oracle.stopped.add(child)
            child.ref.stop_nowait()
            harness.oracle.check(child.mailbox.closed, f"{name} was stopped and takes messages")
