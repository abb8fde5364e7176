"""The supervisor exits during work: no process is left."""

import contextlib
import random

import attrs
import trio

from supervisor import Session, SupervisorError
from tests.simulation.agents.agent_harness import (
    DEADLY,
    SETTINGS,
    AgentHarness,
    open_agent_harness,
    random_agent,
)
from tests.simulation.timing import random_pause


class ExitError(Exception):
    """Raised inside the block of the supervisor."""


async def exit_with_processes() -> None:
    settings = attrs.evolve(SETTINGS, exit_seconds=random.choice((0.5, 5.0)))
    async with trio.open_nursery() as outside:
        with trio.CancelScope() as scope, contextlib.suppress(ExitError):
            async with open_agent_harness(
                random_agent(), settings=settings, outside=outside
            ) as harness:
                for _ in range(2):
                    session = await harness.attempt(harness.sup.create("agent"))
                    if isinstance(session, Session):
                        outside.start_soon(send_from_outside, harness, session)
                        outside.start_soon(send_from_outside, harness, session)
                await random_pause()
                await random_pause()
                await leave(harness, scope)


async def leave(harness: AgentHarness, scope: trio.CancelScope) -> None:
    match random.randrange(4):
        case 0:
            await harness.sup.drain()
        case 1:
            raise ExitError
        case 2:
            scope.cancel()
            await trio.lowlevel.checkpoint()
        case _:
            pass


async def send_from_outside(harness: AgentHarness, session: Session) -> None:
    """Keep sending from outside, also after the exit."""
    for _ in range(3):
        text = harness.script((*DEADLY, "ask bash"))
        with contextlib.suppress(SupervisorError):
            await harness.send(session, text, when_busy=random.choice(("queue", "interrupt")))
        await random_pause()
