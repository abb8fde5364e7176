"""Agents that are slow, wait for people and wait for children: who is called stalled is."""

import random

import trio

from supervisor import Session
from tests.simulation.stage import wander
from tests.simulation.trees.stage import Trees, open_trees, tree_settings

DEEDS = ("beat", "beat", "ask", "await", "spawn", "nap", "hang", "tool", "use")


async def stall() -> None:
    settings = tree_settings(
        quiet_after_seconds=1.0,
        stalled_after_seconds=random.choice((1.0, 2.0, 4.0)),
        tool_stalled_after_seconds=random.choice((1.5, 6.0)),
        on_stall=random.choice(("notify", "interrupt", "restart", "stop")),
        permission_timeout_seconds=random.choice((3.0, 10.0)),
        turn_deadline_seconds=random.choice((None, None, 8.0)),
    )
    async with open_trees(DEEDS, settings=settings) as trees:
        root = await trees.plant()
        async with trio.open_nursery() as people:
            people.start_soon(answer_people, trees)
            async with trio.open_nursery() as nursery:
                await trees.stage.send(root, trees.stage.text("spawn", "await", "beat", "ask"))
                for _ in range(2):
                    nursery.start_soon(trees.go_on, 3, "spawn", "say", "say", "stop")
                nursery.start_soon(prompt_some, trees, root)
            people.cancel_scope.cancel()
        await trees.come_to_rest()


async def prompt_some(trees: Trees, root: Session) -> None:
    for _ in range(2):
        await trees.stage.prompt(root, trees.stage.text("spawn", "await", "beat"))


async def answer_people(trees: Trees) -> None:
    while True:
        await trio.sleep(1.0)
        for request in await trees.sup.permissions():
            if random.random() < 0.5:
                await trees.stage.try_to(trees.sup.answer(request.id, "allow_once"))
            await wander()
