"""Suspended children are wanted while their parent has as many up as it may."""

import random

import attrs
import trio

from tests.simulation.stage import impatiently, wander
from tests.simulation.trees.stage import SMALL, Trees, open_trees, tree_settings
from tests.simulation.trees.wishes import CALM

DEEDS = (*CALM, "nap", "spawn")


async def wake_up_into_a_full_house() -> None:
    settings = tree_settings(
        suspend_after_seconds=0.25, max_running_turns=random.choice((1, 2, 1000))
    )
    async with open_trees(DEEDS, settings=settings) as trees:
        limits = attrs.evolve(SMALL, max_children=random.choice((1, 2)), max_descendants=6)
        root = await trees.plant(limits=limits)
        for _ in range(3):
            await trees.spawn(root, suspend_after_seconds=0.25)
            await trio.sleep(random.choice((0.0, 1.0, 6.0)))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(want_somebody, trees)
            nursery.start_soon(trees.go_on, 3, "stop", "resume", "spawn", "raise")
            nursery.start_soon(trees.go_on, 2, "delete", "interrupt", "interrupt_tree")
        await trees.come_to_rest()


async def want_somebody(trees: Trees) -> None:
    for _ in range(3):
        session = trees.some()
        if session is not None:
            await impatiently(trees.stage.prompt, session, trees.text())
        await wander()
