"""Interrupts of every scope, many of them late: each hits what it names, or nothing."""

import random

import trio

from supervisor import Ladder, Session, Settings, ToolCall, TurnScope
from supervisor.core.ids import CallId, TurnId
from tests.simulation.sessions.cast import QUIET
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import impatiently, wander

DEEDS = (*QUIET, "tool", "tool", "hang", "wander")


async def point_at_turns() -> None:
    settings = Settings(ladder=Ladder(ask_seconds=2.0))
    async with open_stage(settings=settings) as stage:
        session = await stage.sup.create("player")
        bystander = await stage.sup.create("player")
        await stage.send(bystander, stage.text("tool", "tool", "say"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_busy, stage, session)
            nursery.start_soon(point_often, stage, session)
            nursery.start_soon(point_often, stage, session)
        hit = stage.referee.book(bystander.id).interrupted
        stage.referee.check(not hit, f"a bystander was hit: {hit}")


async def keep_busy(stage: Stage, session: Session) -> None:
    for _ in range(4):
        await stage.send(session, stage.text(*random.choices(DEEDS, k=3)))
        await wander()


async def point_often(stage: Stage, session: Session) -> None:
    for _ in range(4):
        await impatiently(point_once, stage, session)
        await wander()


async def point_once(stage: Stage, session: Session) -> None:
    book = stage.referee.book(session.id)
    turns = [*book.begun] or ["turn_never"]
    calls = [*book.calls] or ["call_never"]
    scope: object = random.choice(
        ("turn", "session", TurnScope(TurnId(random.choice(turns))), TurnScope(TurnId(turns[-1])))
    )
    if random.random() < 0.4:
        scope = ToolCall(CallId(random.choice(calls)))
    new = stage.text("say") if random.random() < 0.3 else None
    if random.random() < 0.3:
        await wander()  # what was named may be over by now
    queued = random.choice(("keep", "keep", "cancel"))
    await stage.interrupt(session, scope, replace_with=new, queued=queued)
