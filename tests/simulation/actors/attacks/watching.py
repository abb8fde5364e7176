"""Watchers of actors that send to them until their end; all crash, finish and are stopped."""

import random

import trio

from actors import Ref, RestartPolicy
from tests.simulation.actors.harness import Harness, open_harness
from tests.simulation.actors.scripted_actor import SLOW, Action
from tests.simulation.timing import random_pause

ENDS: tuple[Action, ...] = ("crash", "quit", "stop", "pause")


async def watch_ending_actors() -> None:
    async with open_harness() as harness:
        watchers = [await start_one(harness, name, "permanent") for name in ("wim", "wes")]
        watched = [await start_one(harness, name, "transient") for name in ("ann", "bob")]
        async with trio.open_nursery() as nursery:
            for watcher in watchers:
                nursery.start_soon(keep_watch, harness, watcher, watched)
            for one in watched:
                nursery.start_soon(keep_writing, harness, one, watchers)
                nursery.start_soon(end_it, harness, one)
            nursery.start_soon(disturb, harness, random.choice(watchers))
        await harness.quiet()


async def start_one(harness: Harness, name: str, kind: str) -> Ref:
    policy = RestartPolicy("permanent" if kind == "permanent" else "transient", max_restarts=1_000)
    ref = await harness.start(name, behaviour=SLOW, policy=policy, capacity=random.choice((1, 4)))
    assert ref is not None
    return ref


async def keep_watch(harness: Harness, watcher: Ref, watched: list[Ref]) -> None:
    for one in watched:
        await random_pause()
        harness.watch(watcher, one)
        if random.random() < 0.3:
            harness.watch(watcher, one)
        if random.random() < 0.2:
            await random_pause()
            harness.unwatch(watcher, one)


async def keep_writing(harness: Harness, ref: Ref, watchers: list[Ref]) -> None:
    for _ in range(3):
        harness.tell(ref, "write", to=random.choice(watchers))
        await random_pause()


async def end_it(harness: Harness, ref: Ref) -> None:
    await random_pause()
    harness.tell(ref, random.choice(ENDS), urgent=random.random() < 0.5)
    await random_pause()
    if random.random() < 0.5:
        await harness.stop(ref)


async def disturb(harness: Harness, watcher: Ref) -> None:
    await random_pause()
    harness.tell(watcher, random.choice(ENDS))
