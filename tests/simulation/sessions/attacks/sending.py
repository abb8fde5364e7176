"""Concurrent senders to one session: every mode, repeated keys, cancelled requests."""

import random

import trio

from supervisor import Session, Settings, SupervisorError
from tests.simulation.harness import Harness, open_harness
from tests.simulation.scripted_agents import QUIET
from tests.simulation.timing import random_pause, with_random_timeout

MODES = ("queue", "steer", "interrupt", "reject")


async def send_concurrently() -> None:
    settings = Settings(
        queue_cap=random.choice((1, 2, 10)), suspend_after_seconds=random.choice((0.25, 900.0))
    )
    async with open_harness(settings=settings) as harness:
        session = await harness.sup.create("simulated")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_some, harness, session)
            nursery.start_soon(send_some, harness, session)
            nursery.start_soon(repeat_request, harness, session)
            nursery.start_soon(prompt_some, harness, session)
            nursery.start_soon(change_the_queue, harness, session)
        await harness.check_when_quiet()


def some_text(harness: Harness) -> str:
    return harness.text(*random.choices(QUIET, k=random.randrange(4)))


async def send_some(harness: Harness, session: Session) -> None:
    for _ in range(3):
        await with_random_timeout(send_once, harness, session)
        await random_pause()


async def send_once(harness: Harness, session: Session) -> None:
    if random.random() < 0.25:
        await harness.steer(session, some_text(harness))
    else:
        ttl = random.choice((None, None, 0.5))
        await harness.send(
            session, some_text(harness), when_busy=random.choice(MODES), ttl_seconds=ttl
        )
    await harness.check_info(session)


async def repeat_request(harness: Harness, session: Session) -> None:
    """Repeat one request with its key, as if each answer had been lost."""
    text, mode = some_text(harness), random.choice(MODES)
    for _ in range(3):
        await with_random_timeout(repeat_once, harness, session, text, mode)
        await random_pause()
    answer = await harness.attempt(session.send(harness.text(), idempotency_key="again"))
    if isinstance(answer, SupervisorError):
        harness.oracle.check(
            answer.code in ("idempotency_conflict", "queue_full"), f"a repeated key: {answer!r}"
        )


async def repeat_once(harness: Harness, session: Session, text: str, mode: str) -> None:
    if random.random() < 0.3:
        await harness.prompt(session, text, when_busy=mode, idempotency_key="again")
    else:
        await harness.send(session, text, when_busy=mode, idempotency_key="again")


async def prompt_some(harness: Harness, session: Session) -> None:
    for _ in range(2):
        await with_random_timeout(harness.prompt, session, some_text(harness))
        await harness.prompt(session, some_text(harness), when_busy=random.choice(MODES))


async def change_the_queue(harness: Harness, session: Session) -> None:
    for _ in range(4):
        waiting = await session.inputs()
        if waiting:
            await with_random_timeout(change_one, harness, session, random.choice(waiting).id)
        await random_pause()


async def change_one(harness: Harness, session: Session, input_id: str) -> None:
    match random.randrange(4):
        case 0:
            await harness.attempt(session.cancel_input(input_id))
        case 1:
            await harness.attempt(session.move_input(input_id, random.randrange(3)))
        case 2:
            await harness.attempt(session.edit_input(input_id, harness.text("say")))
        case _:
            await harness.attempt(session.promote_input(input_id))
