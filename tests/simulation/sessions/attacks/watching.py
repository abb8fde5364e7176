"""Watchers that stall, stop and restart, while the session produces more than they read."""

import random

import trio

from supervisor import Session, Settings
from tests.simulation.harness import Harness, open_harness, watch
from tests.simulation.timing import random_pause

ACTIONS = ("say", "say", "think", "flood", "tool", "pause")


async def watch_records() -> None:
    settings = Settings(suspend_after_seconds=random.choice((0.5, 900.0)))
    async with open_harness(settings=settings) as harness:
        session = await harness.sup.create("simulated")
        async with trio.open_nursery() as watchers:
            for _ in range(2):
                watchers.start_soon(watch_intermittently, harness, session)
            watchers.start_soon(watch_all, harness)
            async with trio.open_nursery() as senders:
                for _ in range(2):
                    senders.start_soon(talk, harness, session)
            watchers.cancel_scope.cancel()
        await check_complete_replay(harness, session)


async def talk(harness: Harness, session: Session) -> None:
    for _ in range(2):
        await harness.prompt(session, harness.text(*random.choices(ACTIONS, k=3)))
        await random_pause()
    if random.random() < 0.3:
        await harness.stop(session)


async def watch_intermittently(harness: Harness, session: Session) -> None:
    last = 0
    while True:
        last = await watch(harness, session, items=random.randrange(1, 20), after=last)
        await random_pause()
        if random.random() < 0.2:
            last = 0


async def watch_all(harness: Harness) -> None:
    last: dict[str, int] = {}
    async with harness.sup.watch() as feed:
        async for record in feed:
            before = last.get(record.session_id, 0)
            harness.oracle.check(
                record.seq == before + 1, f"global feed: {record.seq} after {before}"
            )
            durable = record.seq <= len(harness.oracle.history(record.session_id).records)
            harness.oracle.check(durable, f"global feed: {record.seq} was seen before its commit")
            last[record.session_id] = record.seq


async def check_complete_replay(harness: Harness, session: Session) -> None:
    """Check that a watcher that starts at the end sees every record."""
    there = len(harness.oracle.history(session.id).records)
    seen = await watch(harness, session, items=there)
    harness.oracle.check(seen >= there, f"{seen} of {there} records were seen at the end")
