"""Concurrent stops during start, restart, back-off and stop; some waits are cancelled."""

import random

import trio

from actors import GaveUp, Ref, RestartPolicy
from tests.simulation.actors.harness import Harness, open_harness
from tests.simulation.actors.internals import cell_of
from tests.simulation.actors.scripted_actor import SLOW, STUBBORN, Action
from tests.simulation.timing import random_pause, with_random_timeout

ACTIONS: tuple[Action, ...] = ("note", "sleep", "hang", "crash", "quit", "stop")


async def stop_concurrently() -> None:
    async with open_harness() as harness:
        refs = [ref for name in ("ann", "bob", "cid") if (ref := await start_one(harness, name))]
        async with trio.open_nursery() as nursery:
            for ref in refs:
                nursery.start_soon(disturb, harness, ref)
                nursery.start_soon(stop_it, harness, ref)
                nursery.start_soon(with_random_timeout, wait_for, harness, ref)
        await harness.quiet()


async def start_one(harness: Harness, name: str) -> Ref | None:
    policy = RestartPolicy(
        random.choice(("permanent", "transient", "temporary")),
        max_restarts=1_000,
        backoff_seconds=random.choice((0.0, 2.0)),
    )
    with trio.move_on_after(2.0):
        return await harness.start(
            name,
            behaviour=random.choice((SLOW, STUBBORN)),
            policy=policy,
            shutdown_seconds=random.choice((0.0, 1.0, 3.0)),
        )
    return None


async def disturb(harness: Harness, ref: Ref) -> None:
    for _ in range(3):
        await random_pause()
        harness.tell(ref, random.choice(ACTIONS))


async def stop_it(harness: Harness, ref: Ref) -> None:
    for _ in range(random.randrange(3)):
        await random_pause()
        await with_random_timeout(harness.stop, ref)


async def wait_for(harness: Harness, ref: Ref) -> None:
    try:
        await ref.wait_stopped()
    except GaveUp:
        harness.oracle.check(holds=False, message=f"{ref.name} gave up")
    history = harness.oracle.by_cell[cell_of(ref)]
    harness.oracle.check(not history.alive, f"{history.name} is reported as ended and is alive")
