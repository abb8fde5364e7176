"""Agents that start badly, slowly or not at all, and callers that do not wait."""

import random

import attrs
import trio

from supervisor import Restart, Session
from tests.simulation.agents.agent_harness import (
    QUIET,
    SETTINGS,
    AgentHarness,
    open_agent_harness,
    random_agent,
)
from tests.simulation.timing import random_pause, with_random_timeout

ACTIONS = ("--die-at", "--hang-at", "--fail-at", "--rubbish-at")
PHASES = ("initialize", "new", "load", "resume", "prompt")
WORKS = (*QUIET, "crash", "hang")


async def fail_starts() -> None:
    restart = Restart(max_restarts=random.randrange(3), backoff_seconds=random.choice((0.0, 0.5)))
    settings = attrs.evolve(
        SETTINGS, restart=restart, suspend_after_seconds=random.choice((0.5, 900.0))
    )
    flags = (random.choice(ACTIONS), random.choice(PHASES)) if random.random() < 0.8 else ()
    async with open_agent_harness(random_agent(*flags), settings=settings) as harness:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                with_random_timeout, harness.attempt, harness.sup.create("agent", key=KEY)
            )
            nursery.start_soon(send_until_started, harness)
            nursery.start_soon(send_until_started, harness)
            nursery.start_soon(stop_starting, harness)
        await harness.check_when_quiet()


KEY = "agent:here:me"


async def the_session(harness: AgentHarness) -> Session | None:
    answer = await harness.attempt(harness.sup.get_or_create(KEY, agent="agent"))
    return answer if isinstance(answer, Session) else None


async def send_until_started(harness: AgentHarness) -> None:
    for _ in range(4):
        await with_random_timeout(say, harness)
        await random_pause()


async def say(harness: AgentHarness) -> None:
    session = await the_session(harness)
    if session is not None:
        text = harness.script(WORKS)
        if random.random() < 0.5:
            await harness.prompt(session, text)
        else:
            await harness.send(session, text, when_busy=random.choice(("queue", "steer")))


async def stop_starting(harness: AgentHarness) -> None:
    for _ in range(4):
        await random_pause()
        session = await the_session(harness)
        if session is not None:
            match random.randrange(3):
                case 0:
                    await with_random_timeout(harness.stop, session)
                case 1:
                    await with_random_timeout(harness.interrupt, session)
                case _:
                    await with_random_timeout(harness.resume, session)
