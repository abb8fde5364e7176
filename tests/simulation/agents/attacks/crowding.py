"""More sessions than there may be processes: all get their turn, and never too many are there."""

import random

import attrs
import trio

from supervisor import Session, SupervisorError
from tests.simulation.agents.stage import QUIET, SETTINGS, AgentStage, open_agents, some_agent
from tests.simulation.stage import wander

REFUSALS = ("spawn_refused", "agent_start_failed")
WORKS = (*QUIET, "crash", "hang")


async def crowd() -> None:
    most = random.choice((1, 2, 3))
    settings = attrs.evolve(
        SETTINGS,
        max_agent_processes=most,
        start_concurrency=random.choice((1, 2)),
        suspend_after_seconds=random.choice((0.5, 5.0, 900.0)),
    )
    async with open_agents(some_agent(), settings=settings) as stage:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(visit, stage, f"agent:here:{number}")
        await stage.look_when_quiet()
        there = stage.processes.most_alive
        stage.referee.check(there <= most, f"{there} processes were there, {most} may")


async def visit(stage: AgentStage, key: str) -> None:
    for _ in range(3):
        answer = await stage.try_to(stage.sup.get_or_create(key, agent="agent"))
        if isinstance(answer, SupervisorError):
            stage.referee.check(answer.code in REFUSALS, f"refused with {answer!r}")
        else:
            await use(stage, answer)
        await wander()


async def use(stage: AgentStage, session: Session) -> None:
    await stage.send(session, stage.script(WORKS))
    await wander()
    match random.randrange(3):
        case 0:
            await stage.interrupt(session)
        case 1:
            await stage.stop(session)
        case _:
            pass
