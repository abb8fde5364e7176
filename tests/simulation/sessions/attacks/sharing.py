"""Many ask for the same key at once, replace its session, reset it, delete it, and give up."""

import random

import trio

from supervisor import Session, SupervisorError
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import impatiently, wander

KEY = "player:here:me"


async def share_a_key() -> None:
    async with open_stage() as stage:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(want_it, stage)
            nursery.start_soon(want_another, stage)
            nursery.start_soon(make_once, stage)
        await stage.look_when_quiet()
        check_bearers(stage)


async def want_it(stage: Stage) -> None:
    for _ in range(3):
        await impatiently(talk_to_bearer, stage)
        await wander()


async def talk_to_bearer(stage: Stage) -> None:
    session = await stage.try_to(stage.sup.get_or_create(KEY))
    if isinstance(session, Session):
        await stage.prompt(session, stage.text("say", "wander"))


async def want_another(stage: Stage) -> None:
    for _ in range(3):
        await impatiently(change_bearer, stage)
        await wander()


async def change_bearer(stage: Stage) -> None:
    match random.randrange(4):
        case 0 | 1:
            await stage.try_to(stage.sup.new(KEY))
        case 2:
            await stage.try_to(stage.sup.reset(KEY))
        case _:
            session = await stage.try_to(stage.sup.get_or_create(KEY))
            if isinstance(session, Session):
                await delete(stage, session)


async def delete(stage: Stage, session: Session) -> None:
    answer = await stage.try_to(stage.sup.delete(session.id))
    if not isinstance(answer, SupervisorError):
        left = await stage.store.records(session.id)
        stage.referee.check(not left, f"{len(left)} records of a deleted session are left")


async def make_once(stage: Stage) -> None:
    made = set()
    for _ in range(3):
        with trio.move_on_after(random.choice((0.0, 1.0, 50.0))):
            answer = await stage.try_to(stage.sup.create("player", idempotency_key="once"))
            if isinstance(answer, Session):
                made.add(answer.id)
        await wander()
    stage.referee.check(len(made) <= 1, f"one key made {len(made)} sessions")


def check_bearers(stage: Stage) -> None:
    bearers = [
        book.id
        for book in stage.referee.books.values()
        if book.row is not None and book.row.key is not None and not book.is_archived
    ]
    stage.referee.check(len(bearers) <= 1, f"one key has {len(bearers)} bearers")
