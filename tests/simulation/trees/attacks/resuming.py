"""Stopped children are resumed while their ancestors stop, crash, resume or are deleted."""

import random

import trio

from supervisor import Restart
from tests.simulation.timing import random_pause
from tests.simulation.trees.spawn_options import CALM
from tests.simulation.trees.tree_harness import TreeHarness, open_tree_harness

ACTIONS = (*CALM, "crash")


async def resume_below_stopping() -> None:
    async with open_tree_harness(ACTIONS) as harness:
        root = await harness.create_root(
            restart=Restart(policy=random.choice(("never", "on_crash")))
        )
        first = await harness.spawn(root)
        if first is not None:
            await harness.spawn(first)
            await harness.spawn(first, lifetime=random.choice(("with_parent", "detached")))
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(harness.act_repeatedly, 3, "stop", "delete", "say")
            for _ in range(3):
                nursery.start_soon(harness.act_repeatedly, 3, "resume", "send_stopped")
            nursery.start_soon(crash_occasionally, harness)
        await harness.wait_until_settled()


async def crash_occasionally(harness: TreeHarness) -> None:
    for _ in range(3):
        session = harness.random_session()
        if session is not None:
            await harness.sessions.send(
                session, harness.sessions.text("crash"), when_busy="interrupt"
            )
        await random_pause()
