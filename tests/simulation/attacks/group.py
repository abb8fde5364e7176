"""One group of three under any strategy: crashes at the same time, newcomers, stops, back-off."""

import random
from typing import get_args

import trio

from actors import Group, GroupSpec, Ref, RestartPolicy
from actors._restart import RestartKind, Strategy
from tests.simulation.player import MOODY, SLOW, Deed, Temper
from tests.simulation.stage import Stage, impatiently, open_stage, wander

KINDS: tuple[RestartKind, ...] = ("permanent", "permanent", "transient", "temporary")
DEEDS: tuple[Deed, ...] = ("note", "sleep", "crash", "crash", "quit")


async def shake_a_group() -> None:
    async with open_stage() as stage:
        spec = GroupSpec(
            [stage.spec(name, temper=temper(), kind=random.choice(KINDS)) for name in "abc"],
            strategy=random.choice(get_args(Strategy)),
            max_restarts=1_000,
            backoff_seconds=random.choice((0.0, 0.0, 0.01)),
        )
        group = await stage.start_group("group", spec, within=stage.system)
        if group is None:
            return
        async with trio.open_nursery() as nursery:
            for name in group:
                nursery.start_soon(disturb, stage, group[name])
            nursery.start_soon(impatiently, join, stage, group)
            nursery.start_soon(stop_some, stage, group)
        await stage.quiet()


def temper() -> Temper:
    return random.choice((SLOW, MOODY))


async def disturb(stage: Stage, ref: Ref) -> None:
    for _ in range(random.randrange(3)):
        await wander()
        stage.tell(ref, random.choice(DEEDS))
        await impatiently(stage.ask, ref, "note")


async def join(stage: Stage, group: Group) -> None:
    await wander()
    kind: RestartKind = random.choice(KINDS)
    ref = await stage.start("late", group=group, temper=SLOW, policy=RestartPolicy(kind))
    if ref is not None:
        stage.tell(ref, random.choice(DEEDS))
        await wander()
        await stage.stop(ref)
        # A name is free again as soon as its bearer is over.
        if random.random() < 0.5:
            await stage.start("late", group=group, policy=RestartPolicy(kind))


async def stop_some(stage: Stage, group: Group) -> None:
    await wander()
    if random.random() < 0.3:
        await impatiently(stage.stop, group[random.choice("abc")])
    await wander()
    if random.random() < 0.3:
        await impatiently(stage.stop_group, group)
