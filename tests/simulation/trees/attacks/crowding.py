"""The process has room for few sessions and fewer turns, and everybody wants some."""

import random

import trio

from supervisor import Session
from tests.simulation.stage import wander
from tests.simulation.trees.cast import check_refusal
from tests.simulation.trees.stage import Trees, open_trees, tree_settings
from tests.simulation.trees.wishes import ROUGH, some_limits


async def crowd_the_house() -> None:
    settings = tree_settings(
        max_sessions=random.choice((2, 4, 7)), max_running_turns=random.choice((1, 2, 3))
    )
    async with open_trees(ROUGH, settings=settings) as trees:
        await trees.plant()
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(plant_some, trees)
            for _ in range(3):
                nursery.start_soon(trees.go_on, 4, "spawn", "say", "say", "knock", "stop", "resume")
            nursery.start_soon(trees.go_on, 2, "delete", "stop", "interrupt")
        await trees.come_to_rest()


async def plant_some(trees: Trees) -> None:
    for _ in range(2):
        given = {"limits": some_limits()} if random.random() < 0.3 else {}
        answer = await trees.stage.try_to(trees.plant(**given))
        if isinstance(answer, Session):
            await trees.stage.send(answer, trees.text())
        else:
            check_refusal(trees.referee, answer)
        await wander()
