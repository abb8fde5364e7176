"""Agents ask people, who answer late, twice, for always, or never."""

import random

import trio

from supervisor import Session, Settings
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import impatiently, wander

DECISIONS = ("allow_once", "allow_always", "reject_once", "reject_always", "perhaps")


async def ask_people() -> None:
    settings = Settings(permission_timeout_seconds=random.choice((1.0, 300.0)))
    async with open_stage(settings=settings) as stage:
        sessions = [await stage.sup.create("player") for _ in range(2)]
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(need_people, stage, session)
            nursery.start_soon(answer_some, stage)
            nursery.start_soon(answer_some, stage)
            nursery.start_soon(lose_patience, stage, sessions[0])
        await stage.look_when_quiet()


async def need_people(stage: Stage, session: Session) -> None:
    for _ in range(2):
        text = stage.text(*random.choices(("ask", "ask", "say", "tool"), k=3))
        await impatiently(stage.prompt, session, text)
        await wander()


async def answer_some(stage: Stage) -> None:
    for _ in range(6):
        await impatiently(answer_one, stage)
        await wander()


async def answer_one(stage: Stage) -> None:
    waiting = await stage.sup.permissions()
    for request in waiting:
        book = stage.referee.book(request.session_id)
        asked = any(record.body.get("request_id") == request.id for record in book.records)
        stage.referee.check(asked, f"{request.id} is shown and was not asked")
    if waiting:
        decision = random.choice(DECISIONS)
        await stage.try_to(stage.sup.answer(waiting[0].id, decision))  # type: ignore[arg-type]


async def lose_patience(stage: Stage, session: Session) -> None:
    for _ in range(2):
        await wander()
        await stage.interrupt(session)
    for rule in await session.rules():
        await stage.try_to(session.remove_rule(rule.id))
