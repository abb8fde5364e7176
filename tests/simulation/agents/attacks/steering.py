"""Steering at every moment, for agents that take it, decline it, or begin turns themselves."""

import random

import attrs
import trio

from supervisor import Session
from tests.simulation.agents.agent_harness import (
    NEW_TURN_FLAGS,
    QUIET,
    SETTINGS,
    STEERING_FLAGS,
    AgentHarness,
    open_agent_harness,
    random_agent,
)
from tests.simulation.timing import random_pause, with_random_timeout

WORKS = (*QUIET, "sleep 2", "sleep 4", "tool bash 2", "hang", "crash")
FAULTS = ((), (), ("--hang-at", "steering"), ("--fail-at", "steering"), ("--die-at", "steering"))


async def steer_processes() -> None:
    how = random.choice((*STEERING_FLAGS[1:], NEW_TURN_FLAGS, NEW_TURN_FLAGS))
    settings = attrs.evolve(SETTINGS, suspend_after_seconds=random.choice((0.5, 900.0)))
    agent = random_agent(*how, *random.choice(FAULTS))
    async with open_agent_harness(agent, settings=settings) as harness:
        session = await harness.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, harness, session)
            nursery.start_soon(steer, harness, session)
            nursery.start_soon(steer, harness, session)
            nursery.start_soon(rush, harness, session)
            nursery.start_soon(interrupt, harness, session)
        await harness.check_when_quiet()


async def work(harness: AgentHarness, session: Session) -> None:
    for _ in range(3):
        await with_random_timeout(harness.prompt, session, harness.script(WORKS))
        await random_pause()


async def steer(harness: AgentHarness, session: Session) -> None:
    for _ in range(5):
        await random_pause()
        text = harness.script(QUIET, most=2)
        if random.random() < 0.5:
            await with_random_timeout(harness.steer, session, text)
        else:
            await harness.send(session, text, when_busy="steer")
        if random.random() < 0.3:
            await withdraw(harness, session)


async def rush(harness: AgentHarness, session: Session) -> None:
    """Send an input, and steering before the agent can have received the prompt."""
    for _ in range(3):
        await harness.send(session, harness.script(QUIET))
        await harness.send(session, harness.script(QUIET), when_busy="steer")
        await harness.send(session, harness.script(QUIET), when_busy="steer")
        await trio.sleep(random.choice((0.0, 2.0, 30.0)))


async def withdraw(harness: AgentHarness, session: Session) -> None:
    for waiting in await session.inputs():
        await harness.attempt(session.cancel_input(waiting.id))


async def interrupt(harness: AgentHarness, session: Session) -> None:
    for _ in range(2):
        await random_pause()
        await random_pause()
        await with_random_timeout(harness.interrupt, session)
