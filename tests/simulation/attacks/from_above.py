"""A group is halted and launched again from above while someone below is half way through."""

import random

import trio

from actors import Group, GroupSpec, Ref, RestartPolicy
from tests.simulation.player import Temper
from tests.simulation.stage import Stage, impatiently, open_stage, wander

# Never quite at once, so that there is a half way.
GRADUAL = Temper(start=("note", "pause", "pause", "sleep"), stop=("note", "note", "pause"))

SHAKY = Temper(start=("note", "pause", "crash"), stop=("note", "note", "pause"))


async def restart_from_above() -> None:
    async with open_stage() as stage:
        temper = random.choice((GRADUAL, SHAKY))
        members = [stage.spec(name, temper=temper) for name in "ab"]
        # The first crash inside fells it, so the middle one is often busy launching it.
        inner = GroupSpec(members, max_restarts=random.choice((0, 0, 1)), within_seconds=100.0)
        middle = GroupSpec([stage.member("inner", inner)], max_restarts=1_000)
        outer = GroupSpec(
            [stage.member("middle", middle), stage.spec("c")],
            strategy="one_for_all",
            max_restarts=1_000,
        )
        top = await stage.start_group("outer", outer, within=stage.system)
        if top is None:
            return
        below = top.group("middle")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash_often, stage, below.group("inner")["a"])
            nursery.start_soon(crash_often, stage, top["c"])
            for number in range(2):
                nursery.start_soon(impatiently, join, stage, below, number)
        await stage.quiet()


async def crash_often(stage: Stage, ref: Ref) -> None:
    for _ in range(2):
        stage.tell(ref, "crash")
        await wander()


async def join(stage: Stage, group: Group, number: int) -> None:
    await wander()
    policy = RestartPolicy("permanent")
    await stage.start(f"late-{number}", group=group, temper=GRADUAL, policy=policy)
