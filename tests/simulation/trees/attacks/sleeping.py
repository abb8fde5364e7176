"""Several want children below one that sleeps, at once; it wakes up for them, and is stopped."""

import random

import trio

from tests.simulation.trees.stage import Trees, open_trees, tree_settings
from tests.simulation.trees.wishes import CALM

DEEDS = (*CALM, "nap")


async def spawn_below_a_sleeper() -> None:
    settings = tree_settings(suspend_after_seconds=0.25)
    async with open_trees(DEEDS, settings=settings) as trees:
        root = await trees.plant()
        for _ in range(2):
            await trio.sleep(random.choice((0.0, 2.0, 6.0)))
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(trees.spawn, root)
                nursery.start_soon(trees.go_on, 1, "resume", "knock", "stop")
            await trees.stage.stop(root)
            await come_back_with_some(trees)
        await trees.come_to_rest()


async def come_back_with_some(trees: Trees) -> None:
    """Everybody who may, in any order."""
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(trees.meddle, "resume")
