"""Parents are stopped, deleted and interrupted while they spawn children."""

import trio

from tests.simulation.trees.spawn_options import ROUGH
from tests.simulation.trees.tree_harness import open_tree_harness

ACTIONS = ("spawn", "spawn", "stop", "delete", "interrupt_tree", "interrupt", "resume", "archive")


async def stop_during_spawn() -> None:
    async with open_tree_harness(ROUGH) as harness:
        root = await harness.create_root()
        await harness.add_children(root)
        async with trio.open_nursery() as nursery:
            await harness.sessions.send(root, harness.sessions.text("spawn", "spawn_two", "spawn"))
            for _ in range(3):
                nursery.start_soon(harness.act_repeatedly, 3, *ACTIONS)
            nursery.start_soon(harness.act_repeatedly, 4, "spawn")
        await harness.wait_until_settled()
