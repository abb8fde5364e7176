"""Concurrent spawns below a suspended session, which wakes for them and is stopped."""

import random

import trio

from tests.simulation.trees.spawn_options import CALM
from tests.simulation.trees.tree_harness import TreeHarness, open_tree_harness, tree_settings

ACTIONS = (*CALM, "sleep")


async def spawn_below_suspended() -> None:
    settings = tree_settings(suspend_after_seconds=0.25)
    async with open_tree_harness(ACTIONS, settings=settings) as harness:
        root = await harness.create_root()
        for _ in range(2):
            await trio.sleep(random.choice((0.0, 2.0, 6.0)))
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(harness.spawn, root)
                nursery.start_soon(harness.act_repeatedly, 1, "resume", "send_stopped", "stop")
            await harness.sessions.stop(root)
            await resume_some(harness)
        await harness.wait_until_settled()


async def resume_some(harness: TreeHarness) -> None:
    """Resume random sessions concurrently."""
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(harness.act_once, "resume")
