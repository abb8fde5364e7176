"""Stop, resume, suspend, clear, archive: from several sides at once, in the middle of work."""

import random

import trio

from supervisor import Ladder, Session, Settings, SupervisorError
from tests.simulation.sessions.cast import ROUGH
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import impatiently, wander


async def stop_and_go() -> None:
    settings = Settings(
        suspend_after_seconds=random.choice((0.5, 900.0)),
        ladder=Ladder(ask_seconds=2.0),
        permission_timeout_seconds=2.0,
    )
    async with open_stage(settings=settings) as stage:
        session = await stage.sup.create("player", key="player:here:me")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, stage, session)
            nursery.start_soon(meddle, stage, session)
            nursery.start_soon(meddle, stage, session)
        await stage.stop(session)
        await stage.stop(session)
        await stage.look_when_quiet()


async def work(stage: Stage, session: Session) -> None:
    for _ in range(4):
        text = stage.text(*random.choices((*ROUGH, "hang"), k=3))
        if random.random() < 0.5:
            await stage.send(session, text, if_stopped=random.choice(("resume", "reject")))
        else:
            await impatiently(stage.prompt, session, text)
        await wander()


async def meddle(stage: Stage, session: Session) -> None:
    for _ in range(4):
        await impatiently(meddle_once, stage, session)
        await wander()


async def meddle_once(stage: Stage, session: Session) -> None:
    match random.randrange(9):
        case 0:
            await stage.stop(session, when="after_turn")
        case 1 | 2:
            await stage.stop(session)
        case 3 | 4:
            await stage.try_to(session.resume())
        case 5:
            await stage.try_to(session.clear())
        case 6:
            await stage.try_to(session.archive())
        case 7:
            await stage.try_to(session.unarchive())
        case _:
            await append(stage, session)


async def append(stage: Stage, session: Session) -> None:
    text = stage.text()
    answer = await stage.try_to(session.append("user", text))
    said = [
        record
        for record in stage.referee.book(session.id).records
        if record.kind == "user_text" and record.body["text"] == text
    ]
    expected = 0 if isinstance(answer, SupervisorError) else 1
    stage.referee.check(len(said) == expected, f"{text!r} was appended {len(said)} times")
