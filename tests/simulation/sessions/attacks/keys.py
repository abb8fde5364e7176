"""Concurrent callers of one key: get, replace, reset, delete, and cancelled requests."""

import random

import trio

from supervisor import Session, SupervisorError
from tests.simulation.harness import Harness, open_harness
from tests.simulation.timing import random_pause, with_random_timeout

KEY = "simulated:here:me"


async def contend_for_key() -> None:
    async with open_harness() as harness:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(use_key, harness)
            nursery.start_soon(replace_often, harness)
            nursery.start_soon(create_once, harness)
        await harness.check_when_quiet()
        check_holders(harness)


async def use_key(harness: Harness) -> None:
    for _ in range(3):
        await with_random_timeout(prompt_holder, harness)
        await random_pause()


async def prompt_holder(harness: Harness) -> None:
    session = await harness.attempt(harness.sup.get_or_create(KEY))
    if isinstance(session, Session):
        await harness.prompt(session, harness.text("say", "pause"))


async def replace_often(harness: Harness) -> None:
    for _ in range(3):
        await with_random_timeout(replace_holder, harness)
        await random_pause()


async def replace_holder(harness: Harness) -> None:
    match random.randrange(4):
        case 0 | 1:
            await harness.attempt(harness.sup.new(KEY))
        case 2:
            await harness.attempt(harness.sup.reset(KEY))
        case _:
            session = await harness.attempt(harness.sup.get_or_create(KEY))
            if isinstance(session, Session):
                await delete(harness, session)


async def delete(harness: Harness, session: Session) -> None:
    answer = await harness.attempt(harness.sup.delete(session.id))
    if not isinstance(answer, SupervisorError):
        left = await harness.store.records(session.id)
        harness.oracle.check(not left, f"{len(left)} records of a deleted session are left")


async def create_once(harness: Harness) -> None:
    made = set()
    for _ in range(3):
        with trio.move_on_after(random.choice((0.0, 1.0, 50.0))):
            answer = await harness.attempt(harness.sup.create("simulated", idempotency_key="once"))
            if isinstance(answer, Session):
                made.add(answer.id)
        await random_pause()
    harness.oracle.check(len(made) <= 1, f"one idempotency key created {len(made)} sessions")


def check_holders(harness: Harness) -> None:
    holders = [
        history.id
        for history in harness.oracle.histories.values()
        if history.row is not None and history.row.key is not None and not history.is_archived
    ]
    harness.oracle.check(len(holders) <= 1, f"one key has {len(holders)} holders")
