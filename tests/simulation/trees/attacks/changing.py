"""Sessions are forked, cleared, labelled and given more, in the middle of whatever they do."""

import random

import attrs
import trio

from tests.simulation.trees.stage import SMALL, open_trees
from tests.simulation.trees.wishes import THRIFTLESS

DEEDS = ("fork", "fork", "clear", "label", "add", "raise_one", "raise_one")


async def change_in_mid_turn() -> None:
    budget = random.choice(({"turns": 5}, {"tokens": 15}, {"cost": 1.0}, {"wall_seconds": 6.0}, {}))
    async with open_trees((*THRIFTLESS, "tool", "ask")) as trees:
        root = await trees.plant(limits=attrs.evolve(SMALL, **budget))
        await trees.grow(root)
        async with trio.open_nursery() as nursery:
            await trees.stage.send(root, trees.stage.text("brood", "nap", "spend", "spawn"))
            for _ in range(3):
                nursery.start_soon(trees.go_on, 3, *DEEDS)
            nursery.start_soon(trees.go_on, 3, "say", "spawn", "knock", "resume")
            nursery.start_soon(trees.go_on, 2, "stop", "interrupt", "interrupt_tree", "delete")
        await trees.come_to_rest()
