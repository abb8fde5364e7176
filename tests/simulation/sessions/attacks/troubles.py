"""The store fails, refuses and is claimed from the side: incarnations end, and nothing is lost."""

import random

import trio

from supervisor import Ladder, Session, Settings
from tests.simulation.sessions.cast import QUIET
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import impatiently, wander

TROUBLES = ("fails", "fails late", "refuses", "refuses", None, None, None)


async def trouble_the_store() -> None:
    settings = Settings(
        ladder=Ladder(ask_seconds=2.0), suspend_after_seconds=random.choice((0.25, 900.0))
    )
    async with open_stage(settings=settings) as stage:
        session = await stage.sup.create("player")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on_talking, stage, session)
            nursery.start_soon(go_on_talking, stage, session)
            nursery.start_soon(go_on_interrupting, stage, session)
            nursery.start_soon(make_trouble, stage, session)
        stage.store.troubles.clear()
        await stage.prompt(session, stage.text("say"))
        await stage.look_when_quiet()


async def go_on_talking(stage: Stage, session: Session) -> None:
    for number in range(3):
        text = stage.text(*random.choices((*QUIET, "hang"), k=3))
        mode = random.choice(("queue", "steer", "interrupt"))
        key = f"key {number}" if random.random() < 0.5 else None
        await impatiently(say_once, stage, session, text, mode, key)
        await wander()


async def say_once(stage: Stage, session: Session, text: str, mode: str, key: str | None) -> None:
    if random.random() < 0.5:
        await stage.send(session, text, when_busy=mode, idempotency_key=key and f"{key} {text}")
    else:
        await stage.prompt(session, text, when_busy=mode)


async def go_on_interrupting(stage: Stage, session: Session) -> None:
    for _ in range(2):
        await wander()
        await impatiently(stage.interrupt, session)


async def make_trouble(stage: Stage, session: Session) -> None:
    for _ in range(3):
        await wander()
        trouble = random.choice(TROUBLES)
        if trouble is not None:
            stage.store.troubles.append(trouble)
        elif random.random() < 0.5:
            await stage.store.claim([session.id])
