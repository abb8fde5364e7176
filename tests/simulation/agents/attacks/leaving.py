"""The supervisor leaves in the middle of everything: nothing that it has started is left."""

import contextlib
import random

import attrs
import trio

from supervisor import Session, SupervisorError
from tests.simulation.agents.stage import DEADLY, SETTINGS, AgentStage, open_agents, some_agent
from tests.simulation.stage import wander


class Enough(Exception):
    """Raised out of the block."""


async def leave_processes() -> None:
    settings = attrs.evolve(SETTINGS, exit_seconds=random.choice((0.5, 5.0)))
    async with trio.open_nursery() as outside:
        with trio.CancelScope() as scope, contextlib.suppress(Enough):
            async with open_agents(some_agent(), settings=settings, outside=outside) as stage:
                for _ in range(2):
                    session = await stage.try_to(stage.sup.create("agent"))
                    if isinstance(session, Session):
                        outside.start_soon(knock, stage, session)
                        outside.start_soon(knock, stage, session)
                await wander()
                await wander()
                await leave(stage, scope)


async def leave(stage: AgentStage, scope: trio.CancelScope) -> None:
    match random.randrange(4):
        case 0:
            await stage.sup.drain()
        case 1:
            raise Enough
        case 2:
            scope.cancel()
            await trio.lowlevel.checkpoint()
        case _:
            pass


async def knock(stage: AgentStage, session: Session) -> None:
    """Goes on from outside, whether anybody is in or not."""
    for _ in range(3):
        text = stage.script((*DEADLY, "ask bash"))
        with contextlib.suppress(SupervisorError):
            await stage.send(session, text, when_busy=random.choice(("queue", "interrupt")))
        await wander()
