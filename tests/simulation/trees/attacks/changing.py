"""Sessions are forked, cleared, labelled and given higher limits during their turns."""

import random

import attrs
import trio

from tests.simulation.trees.spawn_options import SPENDING
from tests.simulation.trees.tree_harness import SMALL, open_tree_harness

ACTIONS = ("fork", "fork", "clear", "label", "append", "raise_one", "raise_one")


async def change_during_turns() -> None:
    budget = random.choice(({"turns": 5}, {"tokens": 15}, {"cost": 1.0}, {"wall_seconds": 6.0}, {}))
    async with open_tree_harness((*SPENDING, "tool", "ask")) as harness:
        root = await harness.create_root(limits=attrs.evolve(SMALL, **budget))
        await harness.add_children(root)
        async with trio.open_nursery() as nursery:
            await harness.sessions.send(
                root, harness.sessions.text("spawn_two", "sleep", "spend", "spawn")
            )
            for _ in range(3):
                nursery.start_soon(harness.act_repeatedly, 3, *ACTIONS)
            nursery.start_soon(harness.act_repeatedly, 3, "say", "spawn", "send_stopped", "resume")
            nursery.start_soon(
                harness.act_repeatedly, 2, "stop", "interrupt", "interrupt_tree", "delete"
            )
        await harness.wait_until_settled()
