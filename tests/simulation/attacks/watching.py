"""Watchers of actors that write to them to the last; all of them crash, finish and are stopped."""

import random

import trio

from actors import Ref, RestartPolicy
from tests.simulation.player import SLOW, Deed
from tests.simulation.stage import Stage, open_stage, wander

ENDS: tuple[Deed, ...] = ("crash", "quit", "stop", "pause")


async def watch_each_other() -> None:
    async with open_stage() as stage:
        watchers = [await start_one(stage, name, "permanent") for name in ("wim", "wes")]
        watched = [await start_one(stage, name, "transient") for name in ("ann", "bob")]
        async with trio.open_nursery() as nursery:
            for watcher in watchers:
                nursery.start_soon(keep_watch, stage, watcher, watched)
            for one in watched:
                nursery.start_soon(keep_writing, stage, one, watchers)
                nursery.start_soon(end_it, stage, one)
            nursery.start_soon(disturb, stage, random.choice(watchers))
        await stage.quiet()


async def start_one(stage: Stage, name: str, kind: str) -> Ref:
    policy = RestartPolicy("permanent" if kind == "permanent" else "transient", max_restarts=1_000)
    ref = await stage.start(name, temper=SLOW, policy=policy, capacity=random.choice((1, 4)))
    assert ref is not None
    return ref


async def keep_watch(stage: Stage, watcher: Ref, watched: list[Ref]) -> None:
    for one in watched:
        await wander()
        stage.watch(watcher, one)
        if random.random() < 0.3:
            stage.watch(watcher, one)
        if random.random() < 0.2:
            await wander()
            stage.unwatch(watcher, one)


async def keep_writing(stage: Stage, ref: Ref, watchers: list[Ref]) -> None:
    for _ in range(3):
        stage.tell(ref, "write", to=random.choice(watchers))
        await wander()


async def end_it(stage: Stage, ref: Ref) -> None:
    await wander()
    stage.tell(ref, random.choice(ENDS), urgent=random.random() < 0.5)
    await wander()
    if random.random() < 0.5:
        await stage.stop(ref)


async def disturb(stage: Stage, watcher: Ref) -> None:
    await wander()
    stage.tell(watcher, random.choice(ENDS))
