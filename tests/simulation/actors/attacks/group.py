"""One group of three under each strategy: concurrent crashes, late members, stops, back-off."""

import random
from typing import get_args

import trio

from actors import Group, GroupSpec, Ref, RestartPolicy
from actors._restart import RestartKind, Strategy
from tests.simulation.actors.harness import Harness, open_harness
from tests.simulation.actors.scripted_actor import MOODY, SLOW, Action, Behaviour
from tests.simulation.timing import random_pause, with_random_timeout

KINDS: tuple[RestartKind, ...] = ("permanent", "permanent", "transient", "temporary")
ACTIONS: tuple[Action, ...] = ("note", "sleep", "crash", "crash", "quit", "defer")


async def disturb_group() -> None:
    async with open_harness() as harness:
        spec = GroupSpec(
            [
                harness.spec(name, behaviour=behaviour(), kind=random.choice(KINDS))
                for name in "abc"
            ],
            strategy=random.choice(get_args(Strategy)),
            max_restarts=1_000,
            backoff_seconds=random.choice((0.0, 0.0, 0.01)),
        )
        group = await harness.start_group("group", spec, within=harness.system)
        if group is None:
            return
        async with trio.open_nursery() as nursery:
            for name in group:
                nursery.start_soon(disturb, harness, group[name])
            nursery.start_soon(with_random_timeout, join, harness, group)
            nursery.start_soon(stop_some, harness, group)
        await harness.quiet()


def behaviour() -> Behaviour:
    return random.choice((SLOW, MOODY))


async def disturb(harness: Harness, ref: Ref) -> None:
    for _ in range(random.randrange(3)):
        await random_pause()
        harness.tell(ref, random.choice(ACTIONS))
        await with_random_timeout(harness.ask, ref, "note")


async def join(harness: Harness, group: Group) -> None:
    await random_pause()
    kind: RestartKind = random.choice(KINDS)
    ref = await harness.start("late", group=group, behaviour=SLOW, policy=RestartPolicy(kind))
    if ref is not None:
        harness.tell(ref, random.choice(ACTIONS))
        await random_pause()
        await harness.stop(ref)
        # A name is free as soon as its actor has ended.
        if random.random() < 0.5:
            await harness.start("late", group=group, policy=RestartPolicy(kind))


async def stop_some(harness: Harness, group: Group) -> None:
    await random_pause()
    if random.random() < 0.3:
        await with_random_timeout(harness.stop, group[random.choice("abc")])
    await random_pause()
    if random.random() < 0.3:
        await with_random_timeout(harness.stop_group, group)
