"""Agents and outside callers spawn concurrently, with small caps."""

import trio

from supervisor import Session
from tests.simulation.harness import Harness, watch
from tests.simulation.trees.spawn_options import random_spawn_options
from tests.simulation.trees.tree_harness import open_tree_harness


async def spawn_concurrently() -> None:
    async with open_tree_harness() as harness:
        root = await harness.create_root()
        async with trio.open_nursery() as watchers:
            watchers.start_soon(keep_watching, harness.sessions, root)
            async with trio.open_nursery() as nursery:
                await harness.sessions.send(
                    root, harness.sessions.text("spawn_two", "spawn", "news", "spawn_two")
                )
                for _ in range(3):
                    nursery.start_soon(
                        harness.act_repeatedly,
                        2,
                        "spawn",
                        "spawn",
                        "spawn_twice",
                        "say",
                        "check_info",
                    )
                for _ in range(3):
                    nursery.start_soon(lambda: harness.spawn(root, **random_spawn_options()))
            watchers.cancel_scope.cancel()
        await harness.wait_until_settled()


async def keep_watching(sessions: Harness, session: Session) -> None:
    await watch(sessions, session, items=1_000)
