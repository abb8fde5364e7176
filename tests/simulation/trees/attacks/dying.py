"""Children crash, raise and hang, again and again; their parents are told, and some are woken."""

import trio

from tests.simulation.trees.stage import open_trees
from tests.simulation.trees.wishes import ROUGH, some_restart

DEEDS = (*ROUGH, "crash", "crash", "hang")


async def lose_children() -> None:
    async with open_trees(DEEDS) as trees:
        root = await trees.plant(restart=some_restart())
        await trees.grow(root)
        async with trio.open_nursery() as nursery:
            await trees.stage.send(root, trees.stage.text("brood", "spawn", "news"))
            for _ in range(3):
                nursery.start_soon(trees.go_on, 3, "spawn", "say", "knock", "stop", "look")
        await trees.come_to_rest()
