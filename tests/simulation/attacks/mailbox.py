"""Tellers, askers and givers-up crowd one small mailbox while its owner crashes and comes back."""

import random

import trio

from actors import Ref, RestartPolicy
from tests.simulation.player import MOODY, SLOW, Deed
from tests.simulation.stage import Stage, impatiently, open_stage, wander

DEEDS: tuple[Deed, ...] = ("note", "note", "pause", "sleep", "crash")


async def crowd_a_mailbox() -> None:
    async with open_stage() as stage:
        policy = RestartPolicy(
            "permanent", max_restarts=1_000, backoff_seconds=random.choice((0.0, 0.5))
        )
        ref = await stage.start(
            "busy",
            temper=random.choice((SLOW, MOODY)),
            policy=policy,
            capacity=random.choice((1, 2, 3)),
        )
        if ref is None:
            return
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(tell_some, stage, ref)
                nursery.start_soon(ask_some, stage, ref)
        await stage.quiet()


async def tell_some(stage: Stage, ref: Ref) -> None:
    for _ in range(random.randrange(1, 5)):
        stage.tell(ref, random.choice(DEEDS), urgent=random.random() < 0.3)
        await wander()


async def ask_some(stage: Stage, ref: Ref) -> None:
    for _ in range(random.randrange(1, 3)):
        await impatiently(ask_once, stage, ref)
        await wander()


async def ask_once(stage: Stage, ref: Ref) -> None:
    await stage.ask(ref, random.choice(DEEDS), timeout_seconds=random.choice((0.5, 3.0, 60.0)))
