"""Hooks at every door say no, or less, or nothing, while sessions are stopped and interrupted."""

import random

import trio

from supervisor import Session
from tests.simulation.trees.doorkeepers import doorkeepers
from tests.simulation.trees.stage import Trees, open_trees, tree_settings
from tests.simulation.trees.wishes import BUSY

DEEDS = (*BUSY, "tool", "ask", "nap", "crash")


async def hang_at_the_doors() -> None:
    settings = tree_settings(max_running_turns=random.choice((2, 1000)))
    async with open_trees(DEEDS, settings=settings) as trees, doorkeepers(trees):
        roots = [await trees.stage.try_to(trees.plant()) for _ in range(2)]
        async with trio.open_nursery() as nursery:
            for root in roots:
                if isinstance(root, Session):
                    nursery.start_soon(keep_busy, trees, root)
            for _ in range(2):
                nursery.start_soon(trees.go_on, 3, "spawn", "twins", "say", "knock", "resume")
            nursery.start_soon(trees.go_on, 3, "stop", "interrupt", "interrupt_tree", "delete")
        await trees.come_to_rest()


async def keep_busy(trees: Trees, root: Session) -> None:
    for _ in range(2):
        await trees.stage.send(root, trees.stage.text("spawn", "tool", "ask", "brood"))
        await trees.spawn(root)
