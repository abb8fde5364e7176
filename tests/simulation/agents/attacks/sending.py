"""Concurrent sends, interrupts, stops and resumes of one well-behaved agent."""

import random

import attrs
import trio

from supervisor import Session
from tests.simulation.agents.agent_harness import (
    ROUGH,
    SETTINGS,
    AgentHarness,
    open_agent_harness,
    random_agent,
)
from tests.simulation.timing import random_pause, with_random_timeout

MODES = ("queue", "steer", "interrupt", "reject")


async def send_to_processes() -> None:
    settings = attrs.evolve(
        SETTINGS,
        queue_cap=random.choice((1, 3, 10)),
        suspend_after_seconds=random.choice((0.5, 900.0)),
        steer_fallback=random.choice(("queue", "interrupt")),
    )
    async with open_agent_harness(random_agent(), settings=settings) as harness:
        session = await harness.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, harness, session)
            nursery.start_soon(talk, harness, session)
            nursery.start_soon(act_once, harness, session)
        await harness.check_when_quiet()
        check_restarts(harness, session)


def check_restarts(harness: AgentHarness, session: Session) -> None:
    """Check that only agents that exited, or outlived the ladder, were restarted."""
    history = harness.oracle.history(session.id)
    ends = [record.body for record in history.records if record.kind == "turn_ended"]
    restarts = sum(record.kind == "agent_restarting" for record in history.records)
    left = sum(process.left_by_itself for process in harness.processes.all)
    excused = sum(end["zombie"] for end in ends)
    harness.oracle.check(restarts <= left + excused, f"{restarts} restarts, {left} exits")


async def talk(harness: AgentHarness, session: Session) -> None:
    for _ in range(4):
        await with_random_timeout(talk_once, harness, session)
        await random_pause()


async def talk_once(harness: AgentHarness, session: Session) -> None:
    text = harness.script(ROUGH)
    match random.randrange(4):
        case 0:
            await harness.steer(session, text)
        case 1:
            await harness.prompt(session, text)
        case _:
            await harness.send(session, text, when_busy=random.choice(MODES))


async def act_once(harness: AgentHarness, session: Session) -> None:
    for _ in range(4):
        await with_random_timeout(change_once, harness, session)
        await random_pause()


async def change_once(harness: AgentHarness, session: Session) -> None:
    match random.randrange(6):
        case 0 | 1:
            await harness.interrupt(session, random.choice(("turn", "session", "tree")))
        case 2:
            await harness.interrupt(
                session,
                replace_with=harness.script(ROUGH),
                queued=random.choice(("keep", "cancel")),
            )
        case 3:
            await answer_some(harness)
        case 4:
            await harness.stop(session, when=random.choice(("now", "after_turn")))
        case _:
            await harness.resume(session)


async def answer_some(harness: AgentHarness) -> None:
    for request in await harness.sup.permissions():
        await harness.attempt(harness.sup.answer(request.id, random.choice(request.options)))
