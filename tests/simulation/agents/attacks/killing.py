"""Agents that exit, hang and freeze, some by an outside signal; a bystander continues."""

import random

import attrs
import trio

from supervisor import Restart, Session
from tests.simulation.agents.agent_harness import (
    DEADLY,
    SETTINGS,
    AgentHarness,
    open_agent_harness,
    random_agent,
)
from tests.simulation.timing import random_pause, with_random_timeout
from tests.support.in_memory_processes import InMemoryProcess

MODES = ("queue", "steer", "interrupt")


async def kill_processes() -> None:
    restart = Restart(
        policy=random.choice(("never", "on_crash", "always")),
        max_restarts=random.randrange(4),
        backoff_seconds=random.choice((0.0, 0.5)),
    )
    settings = attrs.evolve(SETTINGS, restart=restart, exit_seconds=1.0)
    async with open_agent_harness(random_agent(), settings=settings) as harness:
        await disturb(harness, await harness.begin(), excluded=[])
        await harness.check_when_quiet()


async def kill_beside_bystander() -> None:
    """Disturb one session beside a bystander, with exact time so that only it is affected."""
    async with open_agent_harness(random_agent(), settings=SETTINGS) as harness:
        bystander = await harness.begin()
        [calm_process] = harness.processes.alive
        session = await harness.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                harness.prompt, bystander, harness.script(()) + "\nsleep 9\nsay done"
            )
            await disturb(harness, session, excluded=[calm_process])
        await harness.check_when_quiet()
        hit = [
            signal for pid, signal in harness.processes.signals if pid == calm_process.identity.pid
        ]
        harness.oracle.check(not hit, f"a bystander was sent {hit}")
        over = [*harness.oracle.history(bystander.id).over.values()]
        harness.oracle.check(over == ["completed"], f"the turn of a bystander was changed: {over}")


async def disturb(harness: AgentHarness, session: Session, excluded: list[InMemoryProcess]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_crashing_inputs, harness, session)
        nursery.start_soon(send_crashing_inputs, harness, session)
        nursery.start_soon(stop_or_kill, harness, session, excluded)


async def send_crashing_inputs(harness: AgentHarness, session: Session) -> None:
    for _ in range(3):
        await with_random_timeout(harness.prompt, session, harness.script(DEADLY))
        await harness.send(session, harness.script(DEADLY), when_busy=random.choice(MODES))
        await random_pause()


async def stop_or_kill(
    harness: AgentHarness, session: Session, excluded: list[InMemoryProcess]
) -> None:
    for _ in range(5):
        await random_pause()
        match random.randrange(6):
            case 0 | 1:
                await with_random_timeout(harness.interrupt, session)
            case 2:
                await with_random_timeout(harness.stop, session)
            case 3:
                await with_random_timeout(harness.resume, session)
            case _:
                for process in harness.processes.alive:
                    if process not in excluded:
                        process.die()
