"""Groups within groups: restarts from above meet restarts and starts below, half way through."""

import random
from typing import get_args

import trio

from actors import Group, GroupSpec, Ref, RestartPolicy
from actors._restart import Strategy
from tests.simulation.player import MOODY, SLOW, STUBBORN, Deed, Temper
from tests.simulation.stage import Stage, impatiently, open_stage, wander

DEEDS: tuple[Deed, ...] = ("note", "sleep", "crash", "crash", "quit")


async def shake_a_tree() -> None:
    async with open_stage() as stage:
        inner = spec(stage, "a", "b", max_restarts=random.choice((0, 1, 1_000)))
        middle = spec(stage, "c", inner=inner, max_restarts=random.choice((1, 1_000)))
        outer = spec(stage, "d", inner=middle, max_restarts=1_000)
        top = None
        with trio.move_on_after(20.0):
            top = await stage.start_group("outer", outer, within=stage.system)
        if top is None:
            return
        async with trio.open_nursery() as nursery:
            for life in list(stage.ledger.lives):
                if life.cell is not None:
                    nursery.start_soon(disturb, stage, life.cell.ref)
            for number in range(2):
                nursery.start_soon(impatiently, join, stage, top.group("inner-d"), number)
            nursery.start_soon(stop_some, stage, top)
        await stage.quiet()


def spec(stage: Stage, *names: str, inner: GroupSpec | None = None, max_restarts: int) -> GroupSpec:
    children = [stage.spec(name, temper=temper(), shutdown_seconds=1.0) for name in names]
    if inner is not None:
        children.insert(random.randrange(2), stage.member(f"inner-{names[0]}", inner))
    return GroupSpec(
        children, strategy=random.choice(get_args(Strategy)), max_restarts=max_restarts
    )


def temper() -> Temper:
    return random.choice((SLOW, SLOW, MOODY, STUBBORN))


async def disturb(stage: Stage, ref: Ref) -> None:
    for _ in range(random.randrange(4)):
        await wander()
        stage.tell(ref, random.choice(DEEDS))


async def join(stage: Stage, group: Group, number: int) -> None:
    await wander()
    await stage.start(
        f"late-{number}", group=group, temper=temper(), policy=RestartPolicy("permanent")
    )


async def stop_some(stage: Stage, top: Group) -> None:
    await wander()
    await wander()
    if random.random() < 0.3:
        await impatiently(stage.stop_group, random.choice((top, top.group("inner-d"))))
