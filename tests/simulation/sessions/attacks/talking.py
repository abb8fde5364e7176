"""Many talk to one busy session at once: every mode, keys that are repeated, people who give up."""

import random

import trio

from supervisor import Session, Settings, SupervisorError
from tests.simulation.sessions.cast import QUIET
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import impatiently, wander

MODES = ("queue", "steer", "interrupt", "reject")


async def talk_over_each_other() -> None:
    settings = Settings(
        queue_cap=random.choice((1, 2, 10)), suspend_after_seconds=random.choice((0.25, 900.0))
    )
    async with open_stage(settings=settings) as stage:
        session = await stage.sup.create("player")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_some, stage, session)
            nursery.start_soon(send_some, stage, session)
            nursery.start_soon(repeat_oneself, stage, session)
            nursery.start_soon(prompt_some, stage, session)
            nursery.start_soon(change_the_queue, stage, session)
        await stage.look_when_quiet()


def some_text(stage: Stage) -> str:
    return stage.text(*random.choices(QUIET, k=random.randrange(4)))


async def send_some(stage: Stage, session: Session) -> None:
    for _ in range(3):
        await impatiently(send_once, stage, session)
        await wander()


async def send_once(stage: Stage, session: Session) -> None:
    if random.random() < 0.25:
        await stage.steer(session, some_text(stage))
    else:
        ttl = random.choice((None, None, 0.5))
        await stage.send(session, some_text(stage), when_busy=random.choice(MODES), ttl_seconds=ttl)
    await stage.look(session)


async def repeat_oneself(stage: Stage, session: Session) -> None:
    """The same again and again, each time as if the answer before had been lost."""
    text, mode = some_text(stage), random.choice(MODES)
    for _ in range(3):
        await impatiently(repeat_once, stage, session, text, mode)
        await wander()
    answer = await stage.try_to(session.send(stage.text(), idempotency_key="again"))
    if isinstance(answer, SupervisorError):
        stage.referee.check(
            answer.code in ("idempotency_conflict", "queue_full"), f"a repeated key: {answer!r}"
        )


async def repeat_once(stage: Stage, session: Session, text: str, mode: str) -> None:
    if random.random() < 0.3:
        await stage.prompt(session, text, when_busy=mode, idempotency_key="again")
    else:
        await stage.send(session, text, when_busy=mode, idempotency_key="again")


async def prompt_some(stage: Stage, session: Session) -> None:
    for _ in range(2):
        await impatiently(stage.prompt, session, some_text(stage))
        await stage.prompt(session, some_text(stage), when_busy=random.choice(MODES))


async def change_the_queue(stage: Stage, session: Session) -> None:
    for _ in range(4):
        waiting = await session.inputs()
        if waiting:
            await impatiently(change_one, stage, session, random.choice(waiting).id)
        await wander()


async def change_one(stage: Stage, session: Session, input_id: str) -> None:
    match random.randrange(4):
        case 0:
            await stage.try_to(session.cancel_input(input_id))
        case 1:
            await stage.try_to(session.move_input(input_id, random.randrange(3)))
        case 2:
            await stage.try_to(session.edit_input(input_id, stage.text("say")))
        case _:
            await stage.try_to(session.promote_input(input_id))
