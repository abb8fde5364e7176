"""Parents are stopped, deleted and interrupted while they have children, and have more."""

import trio

from tests.simulation.trees.stage import open_trees
from tests.simulation.trees.wishes import ROUGH

DEEDS = ("spawn", "spawn", "stop", "delete", "interrupt_tree", "interrupt", "resume", "archive")


async def stop_in_mid_spawn() -> None:
    async with open_trees(ROUGH) as trees:
        root = await trees.plant()
        await trees.grow(root)
        async with trio.open_nursery() as nursery:
            await trees.stage.send(root, trees.stage.text("spawn", "brood", "spawn"))
            for _ in range(3):
                nursery.start_soon(trees.go_on, 3, *DEEDS)
            nursery.start_soon(trees.go_on, 4, "spawn")
        await trees.come_to_rest()
