"""Agents that die, hang and freeze, some of somebody else's signal; a bystander goes on."""

import random

import attrs
import trio

from supervisor import Restart, Session
from tests.drivers.in_memory import InMemoryProcess
from tests.simulation.agents.stage import DEADLY, SETTINGS, AgentStage, open_agents, some_agent
from tests.simulation.stage import impatiently, wander

MODES = ("queue", "steer", "interrupt")


async def kill_processes() -> None:
    restart = Restart(
        policy=random.choice(("never", "on_crash", "always")),
        max_restarts=random.randrange(4),
        backoff_seconds=random.choice((0.0, 0.5)),
    )
    settings = attrs.evolve(SETTINGS, restart=restart, exit_seconds=1.0)
    async with open_agents(some_agent(), settings=settings) as stage:
        await harm(stage, await stage.begin(), spared=[])
        await stage.look_when_quiet()


async def spare_bystanders() -> None:
    """The time is exact, so that nobody but those who are harmed has any trouble."""
    async with open_agents(some_agent(), settings=SETTINGS) as stage:
        bystander = await stage.begin()
        [calm] = stage.processes.alive
        session = await stage.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.prompt, bystander, stage.script(()) + "\nsleep 9\nsay done")
            await harm(stage, session, spared=[calm])
        await stage.look_when_quiet()
        hit = [signal for pid, signal in stage.processes.signals if pid == calm.identity.pid]
        stage.referee.check(not hit, f"a bystander was sent {hit}")
        over = [*stage.referee.book(bystander.id).over.values()]
        stage.referee.check(over == ["completed"], f"a bystander was touched: {over}")


async def harm(stage: AgentStage, session: Session, spared: list[InMemoryProcess]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_for_trouble, stage, session)
        nursery.start_soon(ask_for_trouble, stage, session)
        nursery.start_soon(pull_the_plug, stage, session, spared)


async def ask_for_trouble(stage: AgentStage, session: Session) -> None:
    for _ in range(3):
        await impatiently(stage.prompt, session, stage.script(DEADLY))
        await stage.send(session, stage.script(DEADLY), when_busy=random.choice(MODES))
        await wander()


async def pull_the_plug(stage: AgentStage, session: Session, spared: list[InMemoryProcess]) -> None:
    for _ in range(5):
        await wander()
        match random.randrange(6):
            case 0 | 1:
                await impatiently(stage.interrupt, session)
            case 2:
                await impatiently(stage.stop, session)
            case 3:
                await impatiently(stage.resume, session)
            case _:
                for process in stage.processes.alive:
                    if process not in spared:
                        process.die()
