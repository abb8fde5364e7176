"""The store fails and refuses, sessions are claimed by others, during spawns and stops."""

import random

import trio

from supervisor import Session
from tests.simulation.timing import random_pause
from tests.simulation.trees.spawn_options import BUSY
from tests.simulation.trees.tree_harness import LONG_SECONDS, TreeHarness, open_tree_harness

FAULTS = ("fails", "fails late", "refuses", "claim")


async def fail_tree_writes() -> None:
    async with open_tree_harness(BUSY) as harness:
        harness.oracle.had_store_faults = True
        claimed: list[Session] = []
        root = await harness.create_root()
        await harness.add_children(root)
        async with trio.open_nursery() as nursery:
            await harness.sessions.send(root, harness.sessions.text("spawn_two", "spawn", "news"))
            for _ in range(2):
                nursery.start_soon(harness.act_repeatedly, 3, "spawn", "spawn", "stop", "resume")
            nursery.start_soon(harness.act_repeatedly, 2, "say", "delete", "stop")
            nursery.start_soon(inject_faults, harness, claimed)
        harness.sessions.store.faults.clear()
        # The other claimant is gone; a request to each session claims it back.
        for session in [*claimed, *claimed]:
            await trio.sleep(LONG_SECONDS)
            await harness.sessions.attempt(session.set(title="claim back"))  # always writes
        await harness.wait_until_settled()


async def inject_faults(harness: TreeHarness, claimed: list[Session]) -> None:
    for _ in range(3):
        await random_pause()
        fault = random.choice(FAULTS)
        session = harness.random_session()
        if fault != "claim":
            harness.sessions.store.faults.append(fault)
        elif session is not None:
            await harness.sessions.store.claim([session.id])
            claimed.append(session)
