"""Guidance at every moment, for agents that take it, decline it, or begin turns of their own."""

import random

import attrs
import trio

from supervisor import Session
from tests.simulation.agents.stage import (
    BEGINS,
    QUIET,
    SETTINGS,
    STEERS,
    AgentStage,
    open_agents,
    some_agent,
)
from tests.simulation.stage import impatiently, wander

WORKS = (*QUIET, "sleep 2", "sleep 4", "tool bash 2", "hang", "crash")
TROUBLES = ((), (), ("--hang-at", "steering"), ("--fail-at", "steering"), ("--die-at", "steering"))


async def steer_processes() -> None:
    how = random.choice((*STEERS[1:], BEGINS, BEGINS))
    settings = attrs.evolve(SETTINGS, suspend_after_seconds=random.choice((0.5, 900.0)))
    agent = some_agent(*how, *random.choice(TROUBLES))
    async with open_agents(agent, settings=settings) as stage:
        session = await stage.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, stage, session)
            nursery.start_soon(steer, stage, session)
            nursery.start_soon(steer, stage, session)
            nursery.start_soon(rush, stage, session)
            nursery.start_soon(interrupt, stage, session)
        await stage.look_when_quiet()


async def work(stage: AgentStage, session: Session) -> None:
    for _ in range(3):
        await impatiently(stage.prompt, session, stage.script(WORKS))
        await wander()


async def steer(stage: AgentStage, session: Session) -> None:
    for _ in range(5):
        await wander()
        text = stage.script(QUIET, most=2)
        if random.random() < 0.5:
            await impatiently(stage.steer, session, text)
        else:
            await stage.send(session, text, when_busy="steer")
        if random.random() < 0.3:
            await withdraw(stage, session)


async def rush(stage: AgentStage, session: Session) -> None:
    """A turn, and guidance for it before the agent can have heard of it."""
    for _ in range(3):
        await stage.send(session, stage.script(QUIET))
        await stage.send(session, stage.script(QUIET), when_busy="steer")
        await stage.send(session, stage.script(QUIET), when_busy="steer")
        await trio.sleep(random.choice((0.0, 2.0, 30.0)))


async def withdraw(stage: AgentStage, session: Session) -> None:
    for waiting in await session.inputs():
        await stage.try_to(session.cancel_input(waiting.id))


async def interrupt(stage: AgentStage, session: Session) -> None:
    for _ in range(2):
        await wander()
        await wander()
        await impatiently(stage.interrupt, session)
