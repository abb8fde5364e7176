"""Stopped children are called back while those above them stop, crash, are deleted, come back."""

import random

import trio

from supervisor import Restart
from tests.simulation.stage import wander
from tests.simulation.trees.stage import Trees, open_trees
from tests.simulation.trees.wishes import CALM

DEEDS = (*CALM, "crash")


async def come_back() -> None:
    async with open_trees(DEEDS) as trees:
        root = await trees.plant(restart=Restart(policy=random.choice(("never", "on_crash"))))
        first = await trees.spawn(root)
        if first is not None:
            await trees.spawn(first)
            await trees.spawn(first, lifetime=random.choice(("with_parent", "detached")))
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(trees.go_on, 3, "stop", "delete", "say")
            for _ in range(3):
                nursery.start_soon(trees.go_on, 3, "resume", "knock")
            nursery.start_soon(crash_now_and_then, trees)
        await trees.come_to_rest()


async def crash_now_and_then(trees: Trees) -> None:
    for _ in range(3):
        session = trees.some()
        if session is not None:
            await trees.stage.send(session, trees.stage.text("crash"), when_busy="interrupt")
        await wander()
