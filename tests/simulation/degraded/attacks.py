"""Programs that try to make sessions break a promise over a store that comes and goes."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import trio

from actors.testing import settle
from supervisor import Ladder, Session, Settings, SupervisorError
from tests.simulation.sessions.cast import QUIET
from tests.simulation.sessions.stage import watch
from tests.simulation.stage import impatiently, wander

from .stage import FlappingStage, open_flapping_stage

Attack = Callable[[], Awaitable[None]]
DEEDS = (*QUIET, "hang", "ask", "raise")
MOST_HELD = 12
# A session that could not be reached is tried again at least every 30 s.
MOST_TRIES = 20
TROUBLES = ("fails", "fails late", "refuses")
DECISIONS: tuple[Any, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")


def _settings() -> Settings:
    return Settings(
        ladder=Ladder(ask_seconds=2.0),
        suspend_after_seconds=random.choice((0.25, 900.0)),
        permission_timeout_seconds=random.choice((1.0, 300.0)),
        stalled_after_seconds=random.choice((3.0, 300.0)),
        on_stall=random.choice(("notify", "interrupt", "restart", "stop")),
    )


async def talk_and_brake() -> None:
    async with open_flapping_stage(settings=_settings()) as stage:
        session = await stage.sup.create("player")
        stage.flapping.unrest = random.choice((0.05, 0.3, 0.7))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on_talking, stage, session)
            nursery.start_soon(go_on_talking, stage, session)
            nursery.start_soon(go_on_braking, stage, session)
            nursery.start_soon(go_on_answering, stage)
            nursery.start_soon(watch_for_a_while, stage, session)
        await stage.calm_down()
        await work_once_more(stage, session)


async def go_on_talking(stage: FlappingStage, session: Session) -> None:
    for number in range(3):
        text = stage.text(*random.choices(DEEDS, k=3))
        mode = random.choice(("queue", "steer", "interrupt"))
        key = f"key {number}" if random.random() < 0.5 else None
        await impatiently(say_once, stage, session, text, mode, key)
        await stage.look(session)
        await wander()


async def say_once(
    stage: FlappingStage, session: Session, text: str, mode: str, key: str | None
) -> None:
    if key is None and random.random() < 0.5:
        await stage.prompt(session, text, when_busy=mode)
    elif key is None:
        await stage.send(session, text, when_busy=mode)
    else:
        # The same from two sides at once: it has one effect, whatever the store does.
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(send_once, stage, session, text, mode, f"{key} {text}")


async def send_once(stage: FlappingStage, session: Session, text: str, mode: str, key: str) -> None:
    await stage.send(session, text, when_busy=mode, idempotency_key=key)


async def go_on_braking(stage: FlappingStage, session: Session) -> None:
    for _ in range(4):
        await wander()
        await impatiently(brake_once, stage, session)


async def brake_once(stage: FlappingStage, session: Session) -> None:
    match random.randrange(6):
        case 0:
            await stage.stop(session)
        case 1:
            await stage.stop(session, when="after_turn")
        case 2:
            await stage.try_to(session.resume())
        case 3:
            await stage.interrupt(session, queued="cancel")
        case _:
            await stage.interrupt(session)


async def go_on_answering(stage: FlappingStage) -> None:
    for _ in range(5):
        await wander()
        for request in (await stage.sup.permissions())[:1]:
            await stage.try_to(stage.sup.answer(request.id, random.choice(DECISIONS)))


async def watch_for_a_while(stage: FlappingStage, session: Session) -> None:
    with trio.move_on_after(random.choice((1.0, 5.0))):
        await watch(stage, session, items=20)


async def work_once_more(stage: FlappingStage, *sessions: Session) -> None:
    """Whatever has happened, everybody can be used, and what is shown is what is recorded."""
    for session in sessions:
        await stage.stop(session)
        answer: object = None
        for _ in range(MOST_HELD):  # what it holds runs first, and may stop it again
            answer = await stage.try_to(session.prompt(stage.text("say")))
            if not isinstance(answer, SupervisorError):
                break
        refused = isinstance(answer, SupervisorError)
        stage.referee.check(not refused, f"{session.id} is of no use any more: {answer}")
    await stage.look_when_quiet()


async def raise_a_family() -> None:
    async with open_flapping_stage(settings=_settings()) as stage:
        parent = await stage.sup.create("player")
        stage.flapping.unrest = random.choice((0.05, 0.3, 0.7))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on_spawning, stage, parent)
            nursery.start_soon(go_on_spawning, stage, parent)
            nursery.start_soon(go_on_braking, stage, parent)
            nursery.start_soon(interrupt_trees, stage, parent)
        await stage.calm_down()
        await stage.stop(parent)
        await nobody_is_left_below(stage, parent)
        await stage.look_when_quiet()


async def go_on_spawning(stage: FlappingStage, parent: Session) -> None:
    for number in range(2):
        await impatiently(spawn_once, stage, parent, number)
        await wander()


async def spawn_once(stage: FlappingStage, parent: Session, number: int) -> None:
    text = stage.text(*random.choices(("say", "tool", "hang"), k=2))
    how: dict[str, Any] = {"idempotency_key": f"child {number}"} if random.random() < 0.3 else {}
    if how:
        text = f"9{number} say tool"
    child = await stage.try_to(parent.spawn("player", text, **how))
    if isinstance(child, Session) and random.random() < 0.5:
        await stage.interrupt(child)


async def interrupt_trees(stage: FlappingStage, parent: Session) -> None:
    for _ in range(2):
        await wander()
        await impatiently(stage.interrupt, parent, "tree")


async def nobody_is_left_below(stage: FlappingStage, parent: Session) -> None:
    """Who was admitted when its parent stopped, or could not be reached, ends when it is up."""
    living = await living_below(stage, parent)
    for _ in range(MOST_TRIES):
        if not living:
            return
        await trio.sleep(30.0)
        await settle()  # time may be early here; that all had their turn is certain
        living = await living_below(stage, parent)
    stage.referee.check(not living, f"{living} live, and their parent has stopped")


async def living_below(stage: FlappingStage, parent: Session) -> dict[str, str]:
    children = (await stage.sup.list(parent=parent.id)).items
    return {info.id: info.phase.value for info in children if info.phase != "stopped"}


async def leave_in_the_dark() -> None:
    """Leave while the store is ill, or may be: bounded, and nothing acknowledged is gone."""
    async with trio.open_nursery() as outside:
        began = 0.0
        async with open_flapping_stage(settings=_settings(), outside=outside) as stage:
            session = await stage.sup.create("player")
            stage.flapping.unrest = random.choice((0.05, 0.3))
            outside.start_soon(talk_outside, stage, session)
            outside.start_soon(talk_outside, stage, session)
            await wander()
            if random.random() < 0.5:
                stage.flapping.fall_ill()
            outside.start_soon(recover_some_time, stage)
            await wander()
            began = trio.current_time()
        stage.referee.check(trio.current_time() - began < 60.0, "leaving has no end")


async def talk_outside(stage: FlappingStage, session: Session) -> None:
    for _ in range(3):
        with suppress(SupervisorError):
            await stage.send(session, stage.text(*random.choices(QUIET, k=3)))
        await wander()


async def recover_some_time(stage: FlappingStage) -> None:
    await trio.sleep(random.choice((0.5, 5.0, 100.0)))
    stage.flapping.calm()


async def break_as_well() -> None:
    """Illness, and all else that a store may do: then incarnations end, and nothing is lost."""
    async with open_flapping_stage(settings=_settings(), may_crash=True) as stage:
        session = await stage.sup.create("player")
        stage.flapping.unrest = random.choice((0.05, 0.3))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on_talking, stage, session)
            nursery.start_soon(go_on_talking, stage, session)
            nursery.start_soon(go_on_braking, stage, session)
            nursery.start_soon(make_trouble, stage, session)
        stage.store.troubles.clear()
        await stage.calm_down()
        await trio.sleep(60.0)  # a session that was given up is tried again in a while
        await settle()
        await work_once_more(stage, session)


async def make_trouble(stage: FlappingStage, session: Session) -> None:
    for _ in range(3):
        await wander()
        trouble = random.choice((*TROUBLES, None))
        if trouble is not None:
            stage.store.troubles.append(trouble)
        elif not stage.flapping.illness:
            await stage.try_to(stage.store.claim([session.id]))


ATTACKS: tuple[Attack, ...] = (talk_and_brake, raise_a_family, leave_in_the_dark, break_as_well)

__all__ = ["ATTACKS", "Attack"]
