"""A supervisor above restarts a group while a member below is starting or stopping."""

import random

import trio

from actors import Group, GroupSpec, Ref, RestartPolicy
from tests.simulation.actors.harness import Harness, open_harness
from tests.simulation.actors.scripted_actor import Behaviour
from tests.simulation.timing import random_pause, with_random_timeout

# Starts and stops take several steps, so that a restart can interrupt them.
GRADUAL = Behaviour(start=("note", "pause", "pause", "sleep"), stop=("note", "note", "pause"))

SHAKY = Behaviour(start=("note", "pause", "crash"), stop=("note", "note", "pause"))


async def restart_from_above() -> None:
    async with open_harness() as harness:
        behaviour = random.choice((GRADUAL, SHAKY))
        members = [harness.spec(name, behaviour=behaviour) for name in "ab"]
        # Few restarts are allowed inside, so the middle group is often launching the inner one.
        inner = GroupSpec(members, max_restarts=random.choice((0, 0, 1)), within_seconds=100.0)
        middle = GroupSpec([harness.member("inner", inner)], max_restarts=1_000)
        outer = GroupSpec(
            [harness.member("middle", middle), harness.spec("c")],
            strategy="one_for_all",
            max_restarts=1_000,
        )
        top = await harness.start_group("outer", outer, within=harness.system)
        if top is None:
            return
        below = top.group("middle")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash_often, harness, below.group("inner")["a"])
            nursery.start_soon(crash_often, harness, top["c"])
            for number in range(2):
                nursery.start_soon(with_random_timeout, join, harness, below, number)
        await harness.quiet()


async def crash_often(harness: Harness, ref: Ref) -> None:
    for _ in range(2):
        harness.tell(ref, "crash")
        await random_pause()


async def join(harness: Harness, group: Group, number: int) -> None:
    await random_pause()
    policy = RestartPolicy("permanent")
    await harness.start(f"late-{number}", group=group, behaviour=GRADUAL, policy=policy)
