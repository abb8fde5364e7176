"""More sessions than process slots: every session works, and the limit holds."""

import random

import attrs
import trio

from supervisor import Session, SupervisorError
from tests.simulation.agents.agent_harness import (
    QUIET,
    SETTINGS,
    AgentHarness,
    open_agent_harness,
    random_agent,
)
from tests.simulation.timing import random_pause

REFUSALS = ("spawn_refused", "agent_start_failed")
WORKS = (*QUIET, "crash", "hang")


async def fill_process_slots() -> None:
    most = random.choice((1, 2, 3))
    settings = attrs.evolve(
        SETTINGS,
        max_agent_processes=most,
        start_concurrency=random.choice((1, 2)),
        suspend_after_seconds=random.choice((0.5, 5.0, 900.0)),
    )
    async with open_agent_harness(random_agent(), settings=settings) as harness:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(use_session_of_key, harness, f"agent:here:{number}")
        await harness.check_when_quiet()
        there = harness.processes.most_alive
        harness.oracle.check(there <= most, f"{there} processes ran at once, the limit is {most}")


async def use_session_of_key(harness: AgentHarness, key: str) -> None:
    for _ in range(3):
        answer = await harness.attempt(harness.sup.get_or_create(key, agent="agent"))
        if isinstance(answer, SupervisorError):
            harness.oracle.check(answer.code in REFUSALS, f"refused with {answer!r}")
        else:
            await use(harness, answer)
        await random_pause()


async def use(harness: AgentHarness, session: Session) -> None:
    await harness.send(session, harness.script(WORKS))
    await random_pause()
    match random.randrange(3):
        case 0:
            await harness.interrupt(session)
        case 1:
            await harness.stop(session)
        case _:
            pass
