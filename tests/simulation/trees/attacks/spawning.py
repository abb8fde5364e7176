"""Agents spawn agents that spawn, while others spawn from outside, all at once, into small caps."""

import trio

from supervisor import Session
from tests.simulation.sessions.stage import Stage, watch
from tests.simulation.trees.stage import open_trees
from tests.simulation.trees.wishes import some_wish


async def spawn_in_loops() -> None:
    async with open_trees() as trees:
        root = await trees.plant()
        async with trio.open_nursery() as watchers:
            watchers.start_soon(watch_on, trees.stage, root)
            async with trio.open_nursery() as nursery:
                await trees.stage.send(root, trees.stage.text("brood", "spawn", "news", "brood"))
                for _ in range(3):
                    nursery.start_soon(trees.go_on, 2, "spawn", "spawn", "twins", "say", "look")
                for _ in range(3):
                    nursery.start_soon(lambda: trees.spawn(root, **some_wish()))
            watchers.cancel_scope.cancel()
        await trees.come_to_rest()


async def watch_on(stage: Stage, session: Session) -> None:
    await watch(stage, session, items=1_000)
