"""Many talk to one agent at once, interrupt it, stop it and want it back; it means no harm."""

import random

import attrs
import trio

from supervisor import Session
from tests.simulation.agents.stage import ROUGH, SETTINGS, AgentStage, open_agents, some_agent
from tests.simulation.stage import impatiently, wander

MODES = ("queue", "steer", "interrupt", "reject")


async def talk_to_processes() -> None:
    settings = attrs.evolve(
        SETTINGS,
        queue_cap=random.choice((1, 3, 10)),
        suspend_after_seconds=random.choice((0.5, 900.0)),
        steer_fallback=random.choice(("queue", "interrupt")),
    )
    async with open_agents(some_agent(), settings=settings) as stage:
        session = await stage.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, stage, session)
            nursery.start_soon(talk, stage, session)
            nursery.start_soon(meddle, stage, session)
        await stage.look_when_quiet()
        check_restarts(stage, session)


def check_restarts(stage: AgentStage, session: Session) -> None:
    """Nobody is restarted who has not left by itself; what outlives its ladder is another story."""
    book = stage.referee.book(session.id)
    ends = [record.body for record in book.records if record.kind == "turn_ended"]
    restarts = sum(record.kind == "agent_restarting" for record in book.records)
    left = sum(process.left_by_itself for process in stage.processes.all)
    excused = sum(end["zombie"] for end in ends)
    stage.referee.check(restarts <= left + excused, f"{restarts} restarts, {left} left themselves")


async def talk(stage: AgentStage, session: Session) -> None:
    for _ in range(4):
        await impatiently(talk_once, stage, session)
        await wander()


async def talk_once(stage: AgentStage, session: Session) -> None:
    text = stage.script(ROUGH)
    match random.randrange(4):
        case 0:
            await stage.steer(session, text)
        case 1:
            await stage.prompt(session, text)
        case _:
            await stage.send(session, text, when_busy=random.choice(MODES))


async def meddle(stage: AgentStage, session: Session) -> None:
    for _ in range(4):
        await impatiently(meddle_once, stage, session)
        await wander()


async def meddle_once(stage: AgentStage, session: Session) -> None:
    match random.randrange(6):
        case 0 | 1:
            await stage.interrupt(session, random.choice(("turn", "session", "tree")))
        case 2:
            await stage.interrupt(
                session, replace_with=stage.script(ROUGH), queued=random.choice(("keep", "cancel"))
            )
        case 3:
            await answer_some(stage)
        case 4:
            await stage.stop(session, when=random.choice(("now", "after_turn")))
        case _:
            await stage.resume(session)


async def answer_some(stage: AgentStage) -> None:
    for request in await stage.sup.permissions():
        await stage.try_to(stage.sup.answer(request.id, random.choice(request.options)))
