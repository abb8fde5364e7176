"""Everybody stops everybody: during start, restart, back-off and stop; some give up waiting."""

import random

import trio

from actors import GaveUp, Ref, RestartPolicy
from tests.simulation.inside import cell_of
from tests.simulation.player import SLOW, STUBBORN, Deed
from tests.simulation.stage import Stage, impatiently, open_stage, wander

DEEDS: tuple[Deed, ...] = ("note", "sleep", "hang", "crash", "quit", "stop")


async def stop_everything() -> None:
    async with open_stage() as stage:
        refs = [ref for name in ("ann", "bob", "cid") if (ref := await start_one(stage, name))]
        async with trio.open_nursery() as nursery:
            for ref in refs:
                nursery.start_soon(disturb, stage, ref)
                nursery.start_soon(stop_it, stage, ref)
                nursery.start_soon(impatiently, wait_for, stage, ref)
        await stage.quiet()


async def start_one(stage: Stage, name: str) -> Ref | None:
    policy = RestartPolicy(
        random.choice(("permanent", "transient", "temporary")),
        max_restarts=1_000,
        backoff_seconds=random.choice((0.0, 2.0)),
    )
    with trio.move_on_after(2.0):
        return await stage.start(
            name,
            temper=random.choice((SLOW, STUBBORN)),
            policy=policy,
            shutdown_seconds=random.choice((0.0, 1.0, 3.0)),
        )
    return None


async def disturb(stage: Stage, ref: Ref) -> None:
    for _ in range(3):
        await wander()
        stage.tell(ref, random.choice(DEEDS))


async def stop_it(stage: Stage, ref: Ref) -> None:
    for _ in range(random.randrange(3)):
        await wander()
        await impatiently(stage.stop, ref)


async def wait_for(stage: Stage, ref: Ref) -> None:
    try:
        await ref.wait_stopped()
    except GaveUp:
        stage.ledger.check(holds=False, otherwise=f"{ref.name} was given up")
    life = stage.ledger.by_cell[cell_of(ref)]
    stage.ledger.check(not life.alive, f"{life.name} is said to be over and is alive")
