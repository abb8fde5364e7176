"""The store fails and refuses, sessions are claimed: incarnations end with their agents."""

import random

import attrs
import trio

from supervisor import Session
from tests.simulation.agents.agent_harness import (
    QUIET,
    SETTINGS,
    AgentHarness,
    open_agent_harness,
    random_agent,
)
from tests.simulation.timing import random_pause, with_random_timeout

WORKS = (*QUIET, "hang", "stop-self", "sleep 3", "ask bash")


async def fail_store_writes() -> None:
    settings = attrs.evolve(
        SETTINGS,
        suspend_after_seconds=random.choice((0.5, 900.0)),
    )
    async with open_agent_harness(random_agent(), settings=settings) as harness:
        session = await harness.begin()
        harness.store_is_sound = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, harness, session)
            nursery.start_soon(talk, harness, session)
            nursery.start_soon(interrupt, harness, session)
            nursery.start_soon(harness.inject_faults, session)
        harness.store.faults.clear()
        await harness.prompt(session, harness.script(()) + "\nsay done", when_busy="interrupt")
        await harness.check_when_quiet()


async def talk(harness: AgentHarness, session: Session) -> None:
    for _ in range(3):
        text = harness.script(WORKS)
        mode = random.choice(("queue", "steer", "interrupt"))
        if random.random() < 0.5:
            await with_random_timeout(harness.prompt, session, text)
        else:
            await harness.send(session, text, when_busy=mode)
        await random_pause()


async def interrupt(harness: AgentHarness, session: Session) -> None:
    for _ in range(2):
        await random_pause()
        await with_random_timeout(harness.interrupt, session)
