"""Suspended children get inputs while all child slots of their parent are taken."""

import random

import attrs
import trio

from tests.simulation.timing import random_pause, with_random_timeout
from tests.simulation.trees.spawn_options import CALM
from tests.simulation.trees.tree_harness import SMALL, TreeHarness, open_tree_harness, tree_settings

ACTIONS = (*CALM, "sleep", "spawn")


async def wake_into_full_slots() -> None:
    settings = tree_settings(
        suspend_after_seconds=0.25, max_running_turns=random.choice((1, 2, 1000))
    )
    async with open_tree_harness(ACTIONS, settings=settings) as harness:
        limits = attrs.evolve(SMALL, max_children=random.choice((1, 2)), max_descendants=6)
        root = await harness.create_root(limits=limits)
        for _ in range(3):
            await harness.spawn(root, suspend_after_seconds=0.25)
            await trio.sleep(random.choice((0.0, 1.0, 6.0)))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(prompt_random_session, harness)
            nursery.start_soon(harness.act_repeatedly, 3, "stop", "resume", "spawn", "raise")
            nursery.start_soon(harness.act_repeatedly, 2, "delete", "interrupt", "interrupt_tree")
        await harness.wait_until_settled()


async def prompt_random_session(harness: TreeHarness) -> None:
    for _ in range(3):
        session = harness.random_session()
        if session is not None:
            await with_random_timeout(harness.sessions.prompt, session, harness.text())
        await random_pause()
