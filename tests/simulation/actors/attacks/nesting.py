"""Nested groups: restarts from above meet restarts and starts below."""

import random
from typing import get_args

import trio

from actors import Group, GroupSpec, Ref, RestartPolicy
from actors._restart import Strategy
from tests.simulation.actors.harness import Harness, open_harness
from tests.simulation.actors.scripted_actor import MOODY, SLOW, STUBBORN, Action, Behaviour
from tests.simulation.timing import random_pause, with_random_timeout

ACTIONS: tuple[Action, ...] = ("note", "sleep", "crash", "crash", "quit", "defer")


async def disturb_nested_groups() -> None:
    async with open_harness() as harness:
        inner = spec(harness, "a", "b", max_restarts=random.choice((0, 1, 1_000)))
        middle = spec(harness, "c", inner=inner, max_restarts=random.choice((1, 1_000)))
        outer = spec(harness, "d", inner=middle, max_restarts=1_000)
        top = None
        with trio.move_on_after(20.0):
            top = await harness.start_group("outer", outer, within=harness.system)
        if top is None:
            return
        async with trio.open_nursery() as nursery:
            for history in list(harness.oracle.histories):
                if history.cell is not None:
                    nursery.start_soon(disturb, harness, history.cell.ref)
            for number in range(2):
                nursery.start_soon(with_random_timeout, join, harness, top.group("inner-d"), number)
            nursery.start_soon(stop_some, harness, top)
        await harness.quiet()


def spec(
    harness: Harness, *names: str, inner: GroupSpec | None = None, max_restarts: int
) -> GroupSpec:
    children = [harness.spec(name, behaviour=behaviour(), shutdown_seconds=1.0) for name in names]
    if inner is not None:
        children.insert(random.randrange(2), harness.member(f"inner-{names[0]}", inner))
    return GroupSpec(
        children, strategy=random.choice(get_args(Strategy)), max_restarts=max_restarts
    )


def behaviour() -> Behaviour:
    return random.choice((SLOW, SLOW, MOODY, STUBBORN))


async def disturb(harness: Harness, ref: Ref) -> None:
    for _ in range(random.randrange(4)):
        await random_pause()
        harness.tell(ref, random.choice(ACTIONS))


async def join(harness: Harness, group: Group, number: int) -> None:
    await random_pause()
    await harness.start(
        f"late-{number}", group=group, behaviour=behaviour(), policy=RestartPolicy("permanent")
    )


async def stop_some(harness: Harness, top: Group) -> None:
    await random_pause()
    await random_pause()
    if random.random() < 0.3:
        await with_random_timeout(harness.stop_group, random.choice((top, top.group("inner-d"))))
