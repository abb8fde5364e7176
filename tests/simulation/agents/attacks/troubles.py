"""The store fails, refuses and is claimed from the side: incarnations end, and their agents go."""

import random

import attrs
import trio

from supervisor import Session
from tests.simulation.agents.stage import QUIET, SETTINGS, AgentStage, open_agents, some_agent
from tests.simulation.stage import impatiently, wander

TROUBLES = ("fails", "fails late", "refuses", "refuses", None, None, None)
WORKS = (*QUIET, "hang", "stop-self", "sleep 3", "ask bash")


async def trouble_the_store() -> None:
    settings = attrs.evolve(
        SETTINGS,
        suspend_after_seconds=random.choice((0.5, 900.0)),
    )
    async with open_agents(some_agent(), settings=settings) as stage:
        session = await stage.begin()
        stage.store_is_sound = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, stage, session)
            nursery.start_soon(talk, stage, session)
            nursery.start_soon(interrupt, stage, session)
            nursery.start_soon(make_trouble, stage, session)
        stage.store.troubles.clear()
        await stage.prompt(session, stage.script(()) + "\nsay done", when_busy="interrupt")
        await stage.look_when_quiet()


async def talk(stage: AgentStage, session: Session) -> None:
    for _ in range(3):
        text = stage.script(WORKS)
        mode = random.choice(("queue", "steer", "interrupt"))
        if random.random() < 0.5:
            await impatiently(stage.prompt, session, text)
        else:
            await stage.send(session, text, when_busy=mode)
        await wander()


async def interrupt(stage: AgentStage, session: Session) -> None:
    for _ in range(2):
        await wander()
        await impatiently(stage.interrupt, session)


async def make_trouble(stage: AgentStage, session: Session) -> None:
    for _ in range(3):
        await wander()
        trouble = random.choice(TROUBLES)
        if trouble is not None:
            stage.store.troubles.append(trouble)
        elif random.random() < 0.5:
            await stage.store.claim([session.id])
