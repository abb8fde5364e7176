"""Concurrent stop, resume, suspend, clear and archive during work."""

import random

import trio

from supervisor import Ladder, Session, Settings, SupervisorError
from tests.simulation.harness import Harness, open_harness
from tests.simulation.scripted_agents import ROUGH
from tests.simulation.timing import random_pause, with_random_timeout


async def stop_and_resume() -> None:
    settings = Settings(
        suspend_after_seconds=random.choice((0.5, 900.0)),
        ladder=Ladder(ask_seconds=2.0),
        permission_timeout_seconds=2.0,
    )
    async with open_harness(settings=settings) as harness:
        session = await harness.sup.create("simulated", key="simulated:here:me")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, harness, session)
            nursery.start_soon(act_once, harness, session)
            nursery.start_soon(act_once, harness, session)
        await harness.stop(session)
        await harness.stop(session)
        await harness.check_when_quiet()


async def work(harness: Harness, session: Session) -> None:
    for _ in range(4):
        text = harness.text(*random.choices((*ROUGH, "hang"), k=3))
        if random.random() < 0.5:
            await harness.send(session, text, if_stopped=random.choice(("resume", "reject")))
        else:
            await with_random_timeout(harness.prompt, session, text)
        await random_pause()


async def act_once(harness: Harness, session: Session) -> None:
    for _ in range(4):
        await with_random_timeout(change_once, harness, session)
        await random_pause()


async def change_once(harness: Harness, session: Session) -> None:
    match random.randrange(9):
        case 0:
            await harness.stop(session, when="after_turn")
        case 1 | 2:
            await harness.stop(session)
        case 3 | 4:
            await harness.attempt(session.resume())
        case 5:
            await harness.attempt(session.clear())
        case 6:
            await harness.attempt(session.archive())
        case 7:
            await harness.attempt(session.unarchive())
        case _:
            await append(harness, session)


async def append(harness: Harness, session: Session) -> None:
    text = harness.text()
    answer = await harness.attempt(session.append("user", text))
    said = [
        record
        for record in harness.oracle.history(session.id).records
        if record.kind == "user_text" and record.body["text"] == text
    ]
    expected = 0 if isinstance(answer, SupervisorError) else 1
    harness.oracle.check(len(said) == expected, f"{text!r} was appended {len(said)} times")
