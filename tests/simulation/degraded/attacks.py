"""Programs that try to make sessions break a guarantee while the store is degraded."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import trio

from actors.testing import settle
from supervisor import Ladder, Session, Settings, SupervisorError
from tests.simulation.harness import watch
from tests.simulation.scripted_agents import QUIET
from tests.simulation.timing import random_pause, with_random_timeout

from .degraded_harness import FlappingHarness, open_flapping_harness

Attack = Callable[[], Awaitable[None]]
ACTIONS = (*QUIET, "hang", "ask", "raise")
MAX_HELD = 12
# A failed start is retried at least every 30 s.
MAX_TRIES = 20
FAULTS = ("fails", "fails late", "refuses")
DECISIONS: tuple[Any, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")


def _settings() -> Settings:
    return Settings(
        ladder=Ladder(ask_seconds=2.0),
        suspend_after_seconds=random.choice((0.25, 900.0)),
        permission_timeout_seconds=random.choice((1.0, 300.0)),
        stalled_after_seconds=random.choice((3.0, 300.0)),
        on_stall=random.choice(("notify", "interrupt", "restart", "stop")),
    )


async def send_and_interrupt() -> None:
    async with open_flapping_harness(settings=_settings()) as harness:
        session = await harness.sup.create("simulated")
        harness.flapping.failure_rate = random.choice((0.05, 0.3, 0.7))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_repeatedly, harness, session)
            nursery.start_soon(send_repeatedly, harness, session)
            nursery.start_soon(stop_repeatedly, harness, session)
            nursery.start_soon(answer_repeatedly, harness)
            nursery.start_soon(watch_for_a_while, harness, session)
        await harness.recover_store()
        await check_usable(harness, session)


async def send_repeatedly(harness: FlappingHarness, session: Session) -> None:
    for number in range(3):
        text = harness.text(*random.choices(ACTIONS, k=3))
        mode = random.choice(("queue", "steer", "interrupt"))
        key = f"key {number}" if random.random() < 0.5 else None
        await with_random_timeout(submit_once, harness, session, text, mode, key)
        await harness.check_info(session)
        await random_pause()


async def submit_once(
    harness: FlappingHarness, session: Session, text: str, mode: str, key: str | None
) -> None:
    if key is None and random.random() < 0.5:
        await harness.prompt(session, text, when_busy=mode)
    elif key is None:
        await harness.send(session, text, when_busy=mode)
    else:
        # The same request from two callers at once has one effect.
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(send_once, harness, session, text, mode, f"{key} {text}")


async def send_once(
    harness: FlappingHarness, session: Session, text: str, mode: str, key: str
) -> None:
    await harness.send(session, text, when_busy=mode, idempotency_key=key)


async def stop_repeatedly(harness: FlappingHarness, session: Session) -> None:
    for _ in range(4):
        await random_pause()
        await with_random_timeout(stop_once, harness, session)


async def stop_once(harness: FlappingHarness, session: Session) -> None:
    match random.randrange(6):
        case 0:
            await harness.stop(session)
        case 1:
            await harness.stop(session, when="after_turn")
        case 2:
            await harness.attempt(session.resume())
        case 3:
            await harness.interrupt(session, queued="cancel")
        case _:
            await harness.interrupt(session)


async def answer_repeatedly(harness: FlappingHarness) -> None:
    for _ in range(5):
        await random_pause()
        for request in (await harness.sup.permissions())[:1]:
            await harness.attempt(harness.sup.answer(request.id, random.choice(DECISIONS)))


async def watch_for_a_while(harness: FlappingHarness, session: Session) -> None:
    with trio.move_on_after(random.choice((1.0, 5.0))):
        await watch(harness, session, items=20)


async def check_usable(harness: FlappingHarness, *sessions: Session) -> None:
    """Check that every session still works and that infos equal the records."""
    for session in sessions:
        await harness.stop(session)
        answer: object = None
        for _ in range(MAX_HELD):  # queued inputs run first and may stop it again
            if (await session.info()).phase == "stopping":
                await session.wait_stopped()  # as the hint of a refusal says
            answer = await harness.attempt(session.prompt(harness.text("say")))
            if not isinstance(answer, SupervisorError):
                break
        refused = isinstance(answer, SupervisorError)
        harness.oracle.check(not refused, f"{session.id} does not work any more: {answer}")
    await harness.check_when_quiet()


async def spawn_children() -> None:
    async with open_flapping_harness(settings=_settings()) as harness:
        parent = await harness.sup.create("simulated")
        harness.flapping.failure_rate = random.choice((0.05, 0.3, 0.7))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spawn_repeatedly, harness, parent)
            nursery.start_soon(spawn_repeatedly, harness, parent)
            nursery.start_soon(stop_repeatedly, harness, parent)
            nursery.start_soon(interrupt_trees, harness, parent)
        await harness.recover_store()
        await harness.stop(parent)
        await check_no_child_left(harness, parent)
        await harness.check_when_quiet()


async def spawn_repeatedly(harness: FlappingHarness, parent: Session) -> None:
    for number in range(2):
        await with_random_timeout(spawn_once, harness, parent, number)
        await random_pause()


async def spawn_once(harness: FlappingHarness, parent: Session, number: int) -> None:
    text = harness.text(*random.choices(("say", "tool", "hang"), k=2))
    how: dict[str, Any] = {"idempotency_key": f"child {number}"} if random.random() < 0.3 else {}
    if how:
        text = f"9{number} say tool"
    child = await harness.attempt(parent.spawn("simulated", text, **how))
    if isinstance(child, Session) and random.random() < 0.5:
        await harness.interrupt(child)


async def interrupt_trees(harness: FlappingHarness, parent: Session) -> None:
    for _ in range(2):
        await random_pause()
        await with_random_timeout(harness.interrupt, parent, "tree")


async def check_no_child_left(harness: FlappingHarness, parent: Session) -> None:
    """Check that every child ends after its parent, also one that started late."""
    living = await active_children(harness, parent)
    for _ in range(MAX_TRIES):
        if not living:
            return
        await trio.sleep(30.0)
        await settle()  # timeouts may fire early; settle waits for all tasks
        living = await active_children(harness, parent)
    harness.oracle.check(not living, f"{living} are active and their parent has stopped")


async def active_children(harness: FlappingHarness, parent: Session) -> dict[str, str]:
    children = (await harness.sup.list(parent=parent.id)).items
    return {info.id: info.phase.value for info in children if info.phase != "stopped"}


async def exit_while_degraded() -> None:
    """Exit while the store may be degraded: bounded, and nothing acknowledged is lost."""
    async with trio.open_nursery() as outside:
        began = 0.0
        async with open_flapping_harness(settings=_settings(), outside=outside) as harness:
            session = await harness.sup.create("simulated")
            harness.flapping.failure_rate = random.choice((0.05, 0.3))
            outside.start_soon(send_outside, harness, session)
            outside.start_soon(send_outside, harness, session)
            await random_pause()
            if random.random() < 0.5:
                harness.flapping.start_failing()
            outside.start_soon(recover_later, harness)
            await random_pause()
            began = trio.current_time()
        harness.oracle.check(trio.current_time() - began < 60.0, "the exit took 60 s or more")


async def send_outside(harness: FlappingHarness, session: Session) -> None:
    for _ in range(3):
        with suppress(SupervisorError):
            await harness.send(session, harness.text(*random.choices(QUIET, k=3)))
        await random_pause()


async def recover_later(harness: FlappingHarness) -> None:
    await trio.sleep(random.choice((0.5, 5.0, 100.0)))
    harness.flapping.recover()


async def crash_while_degraded() -> None:
    """Combine degraded periods with other store faults: nothing acknowledged is lost."""
    async with open_flapping_harness(settings=_settings(), may_crash=True) as harness:
        session = await harness.sup.create("simulated")
        harness.flapping.failure_rate = random.choice((0.05, 0.3))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_repeatedly, harness, session)
            nursery.start_soon(send_repeatedly, harness, session)
            nursery.start_soon(stop_repeatedly, harness, session)
            nursery.start_soon(inject_faults, harness, session)
        harness.store.faults.clear()
        await harness.recover_store()
        await trio.sleep(60.0)  # a failed start is retried later
        await settle()
        await check_usable(harness, session)


async def inject_faults(harness: FlappingHarness, session: Session) -> None:
    for _ in range(3):
        await random_pause()
        fault = random.choice((*FAULTS, None))
        if fault is not None:
            harness.store.faults.append(fault)
        elif not harness.flapping.failures_left:
            await harness.attempt(harness.store.claim([session.id]))


ATTACKS: tuple[Attack, ...] = (
    send_and_interrupt,
    spawn_children,
    exit_while_degraded,
    crash_while_degraded,
)

__all__ = ["ATTACKS", "Attack"]
