"""Tells, asks and cancelled asks fill one small mailbox while its actor crashes and restarts."""

import random

import trio

from actors import Ref, RestartPolicy
from tests.simulation.actors.harness import Harness, open_harness
from tests.simulation.actors.scripted_actor import MOODY, SLOW, Action
from tests.simulation.timing import random_pause, with_random_timeout

ACTIONS: tuple[Action, ...] = ("note", "note", "pause", "sleep", "crash", "defer")


async def fill_mailbox() -> None:
    async with open_harness() as harness:
        policy = RestartPolicy(
            "permanent", max_restarts=1_000, backoff_seconds=random.choice((0.0, 0.5))
        )
        ref = await harness.start(
            "busy",
            behaviour=random.choice((SLOW, MOODY)),
            policy=policy,
            capacity=random.choice((1, 2, 3)),
        )
        if ref is None:
            return
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(tell_some, harness, ref)
                nursery.start_soon(ask_some, harness, ref)
        await harness.quiet()


async def tell_some(harness: Harness, ref: Ref) -> None:
    for _ in range(random.randrange(1, 5)):
        harness.tell(ref, random.choice(ACTIONS), urgent=random.random() < 0.3)
        await random_pause()


async def ask_some(harness: Harness, ref: Ref) -> None:
    for _ in range(random.randrange(1, 3)):
        await with_random_timeout(ask_once, harness, ref)
        await random_pause()


async def ask_once(harness: Harness, ref: Ref) -> None:
    await harness.ask(ref, random.choice(ACTIONS), timeout_seconds=random.choice((0.5, 3.0, 60.0)))
