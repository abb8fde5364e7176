"""The supervisor leaves while trees grow and end: in peace, drained, with an error, cancelled."""

import contextlib
import random

import trio

from tests.simulation.sessions.attacks.leaving import check_that_all_rest
from tests.simulation.stage import wander
from tests.simulation.trees.stage import Trees, open_trees, tree_settings
from tests.simulation.trees.wishes import ROUGH


class Enough(Exception):
    """Raised out of the block."""


async def leave_a_tree() -> None:
    how = random.choice(("in peace", "with an error", "cancelled", "drained"))
    settings = tree_settings(exit_seconds=random.choice((0.5, 5.0)))
    async with trio.open_nursery() as outside:
        stages: list[Trees] = []
        with trio.CancelScope() as scope, contextlib.suppress(Enough):
            async with open_trees(ROUGH, settings=settings, outside=outside) as trees:
                stages.append(trees)
                root = await trees.plant()
                outside.start_soon(trees.grow, root)
                await trees.stage.send(root, trees.stage.text("brood", "spawn", "nap"))
                for _ in range(2):
                    outside.start_soon(trees.go_on, 3, "spawn", "spawn", "stop", "resume", "say")
                await wander()
                await wander()
                began = trio.current_time()
                await leave(trees, how, scope)
        [trees] = stages
        if how == "in peace" and trio.current_time() - began < settings.exit_seconds:
            check_that_all_rest(trees.stage)
        # What is cut short may stay as it is, but who was stopped stays so, with all below.
        answer = await trees.stage.try_to(root.spawn("player", trees.stage.text()))
        trees.referee.check(isinstance(answer, Exception), "it spawned after leaving")
    trees.referee.close()


async def leave(trees: Trees, how: str, scope: trio.CancelScope) -> None:
    match how:
        case "drained":
            await trees.sup.drain()
        case "with an error":
            raise Enough
        case "cancelled":
            scope.cancel()
            await trio.lowlevel.checkpoint()
