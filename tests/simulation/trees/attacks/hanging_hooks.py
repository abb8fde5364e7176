"""Hooks at every point deny, narrow or hang while sessions are stopped and interrupted."""

import random

import trio

from supervisor import Session
from tests.simulation.trees.hook_faults import open_hook_faults
from tests.simulation.trees.spawn_options import BUSY
from tests.simulation.trees.tree_harness import TreeHarness, open_tree_harness, tree_settings

ACTIONS = (*BUSY, "tool", "ask", "sleep", "crash")


async def hang_in_hooks() -> None:
    settings = tree_settings(max_running_turns=random.choice((2, 1000)))
    async with open_tree_harness(ACTIONS, settings=settings) as harness, open_hook_faults(harness):
        roots = [await harness.sessions.attempt(harness.create_root()) for _ in range(2)]
        async with trio.open_nursery() as nursery:
            for root in roots:
                if isinstance(root, Session):
                    nursery.start_soon(keep_busy, harness, root)
            for _ in range(2):
                nursery.start_soon(
                    harness.act_repeatedly,
                    3,
                    "spawn",
                    "spawn_twice",
                    "say",
                    "send_stopped",
                    "resume",
                )
            nursery.start_soon(
                harness.act_repeatedly, 3, "stop", "interrupt", "interrupt_tree", "delete"
            )
        await harness.wait_until_settled()


async def keep_busy(harness: TreeHarness, root: Session) -> None:
    for _ in range(2):
        await harness.sessions.send(
            root, harness.sessions.text("spawn", "tool", "ask", "spawn_two")
        )
        await harness.spawn(root)
