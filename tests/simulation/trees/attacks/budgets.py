"""All sessions spend the same budgets at once: turns, tokens, cost, seconds."""

import random

import attrs
import trio

from tests.simulation.trees.spawn_options import SPENDING
from tests.simulation.trees.tree_harness import SMALL, open_tree_harness


async def spend_shared_budget() -> None:
    budget = random.choice(
        ({"turns": 4}, {"tokens": 12}, {"cost": 1.0}, {"wall_seconds": 6.0}, {"turns": 0})
    )
    limits = attrs.evolve(SMALL, max_children=3, **budget)
    async with open_tree_harness(SPENDING) as harness:
        root = await harness.create_root(limits=limits)
        await harness.add_children(root)
        async with trio.open_nursery() as nursery:
            await harness.sessions.send(
                root, harness.sessions.text("spawn_two", "spend", "spawn", "spend")
            )
            for _ in range(3):
                nursery.start_soon(
                    harness.act_repeatedly, 3, "spawn", "spawn", "say", "send_stopped"
                )
            nursery.start_soon(harness.act_repeatedly, 2, "raise", "resume", "stop")
        await harness.wait_until_settled()
