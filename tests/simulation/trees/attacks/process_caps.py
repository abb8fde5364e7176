"""Few session and turn slots in the process, with many concurrent users."""

import random

import trio

from supervisor import Session
from tests.simulation.timing import random_pause
from tests.simulation.trees.spawn_options import ROUGH, random_limits
from tests.simulation.trees.tree_agents import check_refusal
from tests.simulation.trees.tree_harness import TreeHarness, open_tree_harness, tree_settings


async def fill_process_caps() -> None:
    settings = tree_settings(
        max_sessions=random.choice((2, 4, 7)), max_running_turns=random.choice((1, 2, 3))
    )
    async with open_tree_harness(ROUGH, settings=settings) as harness:
        await harness.create_root()
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(create_some_roots, harness)
            for _ in range(3):
                nursery.start_soon(
                    harness.act_repeatedly,
                    4,
                    "spawn",
                    "say",
                    "say",
                    "send_stopped",
                    "stop",
                    "resume",
                )
            nursery.start_soon(harness.act_repeatedly, 2, "delete", "stop", "interrupt")
        await harness.wait_until_settled()


async def create_some_roots(harness: TreeHarness) -> None:
    for _ in range(2):
        given = {"limits": random_limits()} if random.random() < 0.3 else {}
        answer = await harness.sessions.attempt(harness.create_root(**given))
        if isinstance(answer, Session):
            await harness.sessions.send(answer, harness.text())
        else:
            check_refusal(harness.oracle, answer)
        await random_pause()
