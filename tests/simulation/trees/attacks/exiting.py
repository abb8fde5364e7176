"""The supervisor exits while trees change: cleanly, drained, with an error, cancelled."""

import contextlib
import random

import trio

from tests.simulation.sessions.attacks.exiting import ExitError, check_all_at_rest, leave
from tests.simulation.timing import random_pause
from tests.simulation.trees.spawn_options import ROUGH
from tests.simulation.trees.tree_harness import TreeHarness, open_tree_harness, tree_settings


async def exit_with_tree() -> None:
    how = random.choice(("cleanly", "with an error", "cancelled", "drained"))
    settings = tree_settings(exit_seconds=random.choice((0.5, 5.0)))
    async with trio.open_nursery() as outside:
        opened: list[TreeHarness] = []
        with trio.CancelScope() as scope, contextlib.suppress(ExitError):
            async with open_tree_harness(ROUGH, settings=settings, outside=outside) as harness:
                opened.append(harness)
                root = await harness.create_root()
                outside.start_soon(harness.add_children, root)
                await harness.sessions.send(
                    root, harness.sessions.text("spawn_two", "spawn", "sleep")
                )
                for _ in range(2):
                    outside.start_soon(
                        harness.act_repeatedly, 3, "spawn", "spawn", "stop", "resume", "say"
                    )
                await random_pause()
                await random_pause()
                began = trio.current_time()
                await leave(harness.sup, how, scope)
        [harness] = opened
        if how == "cleanly" and trio.current_time() - began < settings.exit_seconds:
            check_all_at_rest(harness.sessions)
        # Interrupted work may stay open, but stopped sessions and descendants stay stopped.
        answer = await harness.sessions.attempt(root.spawn("simulated", harness.sessions.text()))
        harness.oracle.check(isinstance(answer, Exception), "a spawn was accepted after the exit")
    harness.oracle.close()
