"""Steering at the very end of turns, with every answer, an error, silence, and crashes."""

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
from tests.simulation.agents.agent_oracle import ProcessOracle
from tests.simulation.timing import with_random_timeout

FAULTS = (
    *((), (), ()),
    ("--hang-at", "steering"),
    ("--fail-at", "steering"),
    ("--rubbish-at", "steering"),
    ("--die-at", "steering"),
)
# The last action of a turn: an answer, an error, or an exit.
ENDS = (
    "",
    "",
    "say done",
    "answer\nsleep 1",
    "fail no",
    "crash",
    "exit 0",
    "close-stdout\nsleep 9",
)
LENGTHS = (0.5, 1.0)


async def steer_at_turn_ends() -> None:
    settings = attrs.evolve(
        SETTINGS, queue_cap=1000, suspend_after_seconds=random.choice((0.5, 900.0))
    )
    how = random.choice((*STEERING_FLAGS[1:], NEW_TURN_FLAGS))
    agent = random_agent(*how, *random.choice(FAULTS))
    async with open_agent_harness(agent, settings=settings) as harness:
        assert isinstance(harness.oracle, ProcessOracle)
        harness.oracle.is_time_exact = True
        session = await harness.begin()
        for _ in range(3):
            await steer_one_end(harness, session)
        await harness.check_when_quiet()


async def steer_one_end(harness: AgentHarness, session: Session) -> None:
    """Begin a turn of known length, and steer at the time of its end."""
    length = random.choice(LENGTHS)
    end = random.choice(ENDS)
    await harness.send(session, f"{harness.script(())}\nsleep {length}\n{end}")
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(steer_until_over, harness, session, length)
        if random.random() < 0.3:
            nursery.start_soon(interrupt_at, harness, session, length)
    if random.random() < 0.5:
        with trio.move_on_after(30):
            await session.wait_idle()


async def steer_until_over(harness: AgentHarness, session: Session, length: float) -> None:
    await trio.sleep(length - random.choice((0.0, 0.0, 0.25)))
    for _ in range(random.randrange(1, 5)):
        text = harness.script(QUIET, most=2)
        if random.random() < 0.7:
            await harness.steer(session, text)
        else:
            await harness.send(session, text, when_busy="steer")
        for _ in range(random.randrange(4)):
            await trio.lowlevel.checkpoint()


async def interrupt_at(harness: AgentHarness, session: Session, length: float) -> None:
    await trio.sleep(length)
    queued = random.choice(("keep", "keep", "cancel"))
    await with_random_timeout(lambda: harness.interrupt(session, queued=queued))


async def interrupt_at_turn_ends() -> None:
    """Interrupt turns at the time of their ends, with an input queued behind each."""
    async with open_agent_harness(random_agent(), settings=SETTINGS) as harness:
        assert isinstance(harness.oracle, ProcessOracle)
        harness.oracle.is_time_exact = True
        session = await harness.begin()
        for _ in range(4):
            length = random.choice(LENGTHS)
            for _ in range(2):
                await harness.send(session, f"{harness.script(())}\nsleep {length}")
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(interrupt_at, harness, session, length)
            with trio.move_on_after(30):
                await session.wait_idle()
        await harness.check_when_quiet()
