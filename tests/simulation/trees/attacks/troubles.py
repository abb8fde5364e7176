"""The store fails, refuses and is claimed from the side, in the middle of spawns and stops."""

import random

import trio

from supervisor import Session
from tests.simulation.stage import wander
from tests.simulation.trees.stage import LONG_SECONDS, Trees, open_trees
from tests.simulation.trees.wishes import BUSY

TROUBLES = ("fails", "fails late", "refuses", "claim")


async def trouble_a_tree() -> None:
    async with open_trees(BUSY) as trees:
        trees.referee.was_troubled = True
        claimed: list[Session] = []
        root = await trees.plant()
        await trees.grow(root)
        async with trio.open_nursery() as nursery:
            await trees.stage.send(root, trees.stage.text("brood", "spawn", "news"))
            for _ in range(2):
                nursery.start_soon(trees.go_on, 3, "spawn", "spawn", "stop", "resume")
            nursery.start_soon(trees.go_on, 2, "say", "delete", "stop")
            nursery.start_soon(make_trouble, trees, claimed)
        trees.stage.store.troubles.clear()
        # Whoever claimed them has gone; somebody wants something of them, and claims them back.
        for session in [*claimed, *claimed]:
            await trio.sleep(LONG_SECONDS)
            await trees.stage.try_to(session.set(title="are you there?"))  # which always writes
        await trees.come_to_rest()


async def make_trouble(trees: Trees, claimed: list[Session]) -> None:
    for _ in range(3):
        await wander()
        trouble = random.choice(TROUBLES)
        session = trees.some()
        if trouble != "claim":
            trees.stage.store.troubles.append(trouble)
        elif session is not None:
            await trees.stage.store.claim([session.id])
            claimed.append(session)
