"""Agents that come up badly, slowly or not at all, and people who do not wait for them."""

import random

import attrs
import trio

from supervisor import Restart, Session
from tests.simulation.agents.stage import QUIET, SETTINGS, AgentStage, open_agents, some_agent
from tests.simulation.stage import impatiently, wander

DEEDS = ("--die-at", "--hang-at", "--fail-at", "--rubbish-at")
PHASES = ("initialize", "new", "load", "resume", "prompt")
WORKS = (*QUIET, "crash", "hang")


async def start_badly() -> None:
    restart = Restart(max_restarts=random.randrange(3), backoff_seconds=random.choice((0.0, 0.5)))
    settings = attrs.evolve(
        SETTINGS, restart=restart, suspend_after_seconds=random.choice((0.5, 900.0))
    )
    flags = (random.choice(DEEDS), random.choice(PHASES)) if random.random() < 0.8 else ()
    async with open_agents(some_agent(*flags), settings=settings) as stage:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(impatiently, stage.try_to, stage.sup.create("agent", key=KEY))
            nursery.start_soon(insist, stage)
            nursery.start_soon(insist, stage)
            nursery.start_soon(give_up, stage)
        await stage.look_when_quiet()


KEY = "agent:here:me"


async def the_session(stage: AgentStage) -> Session | None:
    answer = await stage.try_to(stage.sup.get_or_create(KEY, agent="agent"))
    return answer if isinstance(answer, Session) else None


async def insist(stage: AgentStage) -> None:
    for _ in range(4):
        await impatiently(say, stage)
        await wander()


async def say(stage: AgentStage) -> None:
    session = await the_session(stage)
    if session is not None:
        text = stage.script(WORKS)
        if random.random() < 0.5:
            await stage.prompt(session, text)
        else:
            await stage.send(session, text, when_busy=random.choice(("queue", "steer")))


async def give_up(stage: AgentStage) -> None:
    for _ in range(4):
        await wander()
        session = await the_session(stage)
        if session is not None:
            match random.randrange(3):
                case 0:
                    await impatiently(stage.stop, session)
                case 1:
                    await impatiently(stage.interrupt, session)
                case _:
                    await impatiently(stage.resume, session)
