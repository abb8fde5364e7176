"""Children crash, raise and hang repeatedly; parents are notified, and some are woken."""

import trio

from tests.simulation.trees.spawn_options import ROUGH, random_restart
from tests.simulation.trees.tree_harness import open_tree_harness

ACTIONS = (*ROUGH, "crash", "crash", "hang")


async def crash_children() -> None:
    async with open_tree_harness(ACTIONS) as harness:
        root = await harness.create_root(restart=random_restart())
        await harness.add_children(root)
        async with trio.open_nursery() as nursery:
            await harness.sessions.send(root, harness.sessions.text("spawn_two", "spawn", "news"))
            for _ in range(3):
                nursery.start_soon(
                    harness.act_repeatedly, 3, "spawn", "say", "send_stopped", "stop", "check_info"
                )
        await harness.wait_until_settled()
