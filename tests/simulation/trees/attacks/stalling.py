"""Agents that are slow, wait for answers or for children: every reported stall is one."""

import random

import trio

from supervisor import Session
from tests.simulation.timing import random_pause
from tests.simulation.trees.tree_harness import TreeHarness, open_tree_harness, tree_settings

ACTIONS = ("say_slowly", "say_slowly", "ask", "await", "spawn", "sleep", "hang", "tool", "use")


async def stall() -> None:
    settings = tree_settings(
        quiet_after_seconds=1.0,
        stalled_after_seconds=random.choice((1.0, 2.0, 4.0)),
        tool_stalled_after_seconds=random.choice((1.5, 6.0)),
        on_stall=random.choice(("notify", "interrupt", "restart", "stop")),
        permission_timeout_seconds=random.choice((3.0, 10.0)),
        turn_deadline_seconds=random.choice((None, None, 8.0)),
    )
    async with open_tree_harness(ACTIONS, settings=settings) as harness:
        root = await harness.create_root()
        async with trio.open_nursery() as people:
            people.start_soon(answer_people, harness)
            async with trio.open_nursery() as nursery:
                await harness.sessions.send(
                    root, harness.sessions.text("spawn", "await", "say_slowly", "ask")
                )
                for _ in range(2):
                    nursery.start_soon(harness.act_repeatedly, 3, "spawn", "say", "say", "stop")
                nursery.start_soon(prompt_some, harness, root)
            people.cancel_scope.cancel()
        await harness.wait_until_settled()


async def prompt_some(harness: TreeHarness, root: Session) -> None:
    for _ in range(2):
        await harness.sessions.prompt(root, harness.sessions.text("spawn", "await", "say_slowly"))


async def answer_people(harness: TreeHarness) -> None:
    while True:
        await trio.sleep(1.0)
        for request in await harness.sup.permissions():
            if random.random() < 0.5:
                await harness.sessions.attempt(harness.sup.answer(request.id, "allow_once"))
            await random_pause()
