"""Questions that are answered late, twice, as permissions, or never, while turns end and crash."""

import random

import trio

from supervisor import Permissions, Restart, Session, Settings
from supervisor.core.permissions import MODES
from tests.simulation.harness import Harness, open_harness
from tests.simulation.timing import random_pause, with_random_timeout

TEXTS = ("this", "neither", " ", "\ud800", "x" * 70_000)


async def answer_questions() -> None:
    settings = Settings(permission_timeout_seconds=random.choice((None, 1.0, 300.0)))
    async with open_harness(settings=settings) as harness:
        rights = Permissions(tools=[], mode=random.choice(MODES))
        restart = Restart(policy="on_crash", backoff_seconds=0.1)
        sessions = [
            await harness.sup.create("simulated", permissions=rights, restart=restart)
            for _ in range(2)
        ]
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(put_questions, harness, session)
            nursery.start_soon(answer_some, harness)
            nursery.start_soon(answer_some, harness)
            nursery.start_soon(end_questions, harness, sessions[0])
        await harness.check_when_quiet()


async def put_questions(harness: Harness, session: Session) -> None:
    for _ in range(3):
        actions = random.choices(("question", "question", "ask", "say", "crash"), k=3)
        await with_random_timeout(harness.prompt, session, harness.text(*actions))
        await random_pause()


async def answer_some(harness: Harness) -> None:
    for _ in range(8):
        await with_random_timeout(answer_one, harness)
        await random_pause()


async def answer_one(harness: Harness) -> None:
    waiting = await harness.sup.permissions()
    if waiting:
        request = random.choice(waiting)
        if random.random() < 0.8:
            text = random.choice(TEXTS)
            await harness.attempt(harness.sup.answer_question(request.id, text))
        else:
            await harness.attempt(harness.sup.answer(request.id, "allow_always"))


async def end_questions(harness: Harness, session: Session) -> None:
    for _ in range(3):
        await random_pause()
        if random.random() < 0.7:
            await harness.interrupt(session)
        else:
            await harness.attempt(session.stop())
