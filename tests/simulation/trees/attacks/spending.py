"""Everybody spends from the same budgets at the same time: turns, tokens, cost, seconds."""

import random

import attrs
import trio

from tests.simulation.trees.stage import SMALL, open_trees
from tests.simulation.trees.wishes import THRIFTLESS


async def spend_together() -> None:
    budget = random.choice(
        ({"turns": 4}, {"tokens": 12}, {"cost": 1.0}, {"wall_seconds": 6.0}, {"turns": 0})
    )
    limits = attrs.evolve(SMALL, max_children=3, **budget)
    async with open_trees(THRIFTLESS) as trees:
        root = await trees.plant(limits=limits)
        await trees.grow(root)
        async with trio.open_nursery() as nursery:
            await trees.stage.send(root, trees.stage.text("brood", "spend", "spawn", "spend"))
            for _ in range(3):
                nursery.start_soon(trees.go_on, 3, "spawn", "spawn", "say", "knock")
            nursery.start_soon(trees.go_on, 2, "raise", "resume", "stop")
        await trees.come_to_rest()
