"""Watchers that stall, leave and come back, while the session says more than they can read."""

import random

import trio

from supervisor import Session, Settings
from tests.simulation.sessions.stage import Stage, open_stage, watch
from tests.simulation.stage import wander

DEEDS = ("say", "say", "think", "flood", "tool", "wander")


async def watch_closely() -> None:
    settings = Settings(suspend_after_seconds=random.choice((0.5, 900.0)))
    async with open_stage(settings=settings) as stage:
        session = await stage.sup.create("player")
        async with trio.open_nursery() as watchers:
            for _ in range(2):
                watchers.start_soon(watch_on_and_off, stage, session)
            watchers.start_soon(watch_all, stage)
            async with trio.open_nursery() as talkers:
                for _ in range(2):
                    talkers.start_soon(talk, stage, session)
            watchers.cancel_scope.cancel()
        await see_it_all(stage, session)


async def talk(stage: Stage, session: Session) -> None:
    for _ in range(2):
        await stage.prompt(session, stage.text(*random.choices(DEEDS, k=3)))
        await wander()
    if random.random() < 0.3:
        await stage.stop(session)


async def watch_on_and_off(stage: Stage, session: Session) -> None:
    last = 0
    while True:
        last = await watch(stage, session, items=random.randrange(1, 20), after=last)
        await wander()
        if random.random() < 0.2:
            last = 0


async def watch_all(stage: Stage) -> None:
    last: dict[str, int] = {}
    async with stage.sup.watch() as feed:
        async for record in feed:
            before = last.get(record.session_id, 0)
            stage.referee.check(record.seq == before + 1, f"all: {record.seq} after {before}")
            durable = record.seq <= len(stage.referee.book(record.session_id).records)
            stage.referee.check(durable, f"all: {record.seq} was seen before its commit")
            last[record.session_id] = record.seq


async def see_it_all(stage: Stage, session: Session) -> None:
    """Who comes when all is over sees everything there is, and needs no second look."""
    there = len(stage.referee.book(session.id).records)
    seen = await watch(stage, session, items=there)
    stage.referee.check(seen >= there, f"{seen} of {there} records were seen at the end")
