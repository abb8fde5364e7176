"""Agents that crash, raise and hang, under people who go on as if nothing had happened."""

import random

import trio

from supervisor import Ladder, Restart, Session, Settings
from tests.simulation.sessions.cast import DEADLY
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import impatiently, wander

MODES = ("queue", "steer", "interrupt", "reject")


async def kill_agents() -> None:
    restart = Restart(
        policy=random.choice(("never", "on_crash", "always")),
        max_restarts=random.randrange(3),
        backoff_seconds=random.choice((0.0, 0.5)),
    )
    settings = Settings(restart=restart, ladder=Ladder(ask_seconds=2.0), exit_seconds=1.0)
    async with open_stage(settings=settings) as stage:
        session = await stage.sup.create("player")
        bystander = await stage.sup.create("player")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_for_trouble, stage, session)
            nursery.start_soon(ask_for_trouble, stage, session)
            nursery.start_soon(pull_the_plug, stage, session)
            nursery.start_soon(stage.prompt, bystander, stage.text("say", "tool"))
        await stage.look_when_quiet()
        calm = stage.referee.book(bystander.id)
        stage.referee.check([*calm.over.values()] == ["completed"], "a bystander was touched")


async def ask_for_trouble(stage: Stage, session: Session) -> None:
    for _ in range(3):
        text = stage.text(*random.choices(DEADLY, k=2))
        await impatiently(stage.prompt, session, text)
        await stage.send(session, stage.text("say", "crash"), when_busy=random.choice(MODES))
        await wander()


async def pull_the_plug(stage: Stage, session: Session) -> None:
    for _ in range(3):
        await wander()
        match random.randrange(3):
            case 0:
                await impatiently(stage.interrupt, session)
            case 1:
                await impatiently(stage.stop, session)
            case _:
                await impatiently(resume, stage, session)


async def resume(stage: Stage, session: Session) -> None:
    await stage.try_to(session.resume())
