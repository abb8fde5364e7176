"""Permission requests that are answered late, twice, for always, or never."""

import random

import trio

from supervisor import Session, Settings
from tests.simulation.harness import Harness, open_harness
from tests.simulation.timing import random_pause, with_random_timeout

DECISIONS = ("allow_once", "allow_always", "reject_once", "reject_always", "perhaps")


async def answer_permissions() -> None:
    settings = Settings(permission_timeout_seconds=random.choice((1.0, 300.0)))
    async with open_harness(settings=settings) as harness:
        sessions = [await harness.sup.create("simulated") for _ in range(2)]
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(request_permissions, harness, session)
            nursery.start_soon(answer_some, harness)
            nursery.start_soon(answer_some, harness)
            nursery.start_soon(interrupt_requests, harness, sessions[0])
        await harness.check_when_quiet()


async def request_permissions(harness: Harness, session: Session) -> None:
    for _ in range(2):
        text = harness.text(*random.choices(("ask", "ask", "say", "tool"), k=3))
        await with_random_timeout(harness.prompt, session, text)
        await random_pause()


async def answer_some(harness: Harness) -> None:
    for _ in range(6):
        await with_random_timeout(answer_one, harness)
        await random_pause()


async def answer_one(harness: Harness) -> None:
    waiting = await harness.sup.permissions()
    for request in waiting:
        history = harness.oracle.history(request.session_id)
        asked = any(record.body.get("request_id") == request.id for record in history.records)
        harness.oracle.check(asked, f"{request.id} is listed and was not requested")
    if waiting:
        decision = random.choice(DECISIONS)
        await harness.attempt(harness.sup.answer(waiting[0].id, decision))  # type: ignore[arg-type]


async def interrupt_requests(harness: Harness, session: Session) -> None:
    for _ in range(2):
        await random_pause()
        await harness.interrupt(session)
    for rule in await session.rules():
        await harness.attempt(session.remove_rule(rule.id))
