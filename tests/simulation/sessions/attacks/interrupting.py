"""Interrupts of every scope, many of them late: each hits its target or nothing."""

import random

import trio

from supervisor import Ladder, Session, Settings, ToolCall, TurnScope
from supervisor.core.ids import CallId, TurnId
from tests.simulation.harness import Harness, open_harness
from tests.simulation.scripted_agents import QUIET
from tests.simulation.timing import random_pause, with_random_timeout

ACTIONS = (*QUIET, "tool", "tool", "hang", "pause")


async def interrupt_scopes() -> None:
    settings = Settings(ladder=Ladder(ask_seconds=2.0))
    async with open_harness(settings=settings) as harness:
        session = await harness.sup.create("simulated")
        bystander = await harness.sup.create("simulated")
        await harness.send(bystander, harness.text("tool", "tool", "say"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_busy, harness, session)
            nursery.start_soon(interrupt_often, harness, session)
            nursery.start_soon(interrupt_often, harness, session)
        hit = harness.oracle.history(bystander.id).interrupted
        harness.oracle.check(not hit, f"a bystander was interrupted: {hit}")


async def keep_busy(harness: Harness, session: Session) -> None:
    for _ in range(4):
        await harness.send(session, harness.text(*random.choices(ACTIONS, k=3)))
        await random_pause()


async def interrupt_often(harness: Harness, session: Session) -> None:
    for _ in range(4):
        await with_random_timeout(interrupt_once, harness, session)
        await random_pause()


async def interrupt_once(harness: Harness, session: Session) -> None:
    history = harness.oracle.history(session.id)
    turns = [*history.begun] or ["turn_never"]
    calls = [*history.calls] or ["call_never"]
    scope: object = random.choice(
        ("turn", "session", TurnScope(TurnId(random.choice(turns))), TurnScope(TurnId(turns[-1])))
    )
    if random.random() < 0.4:
        scope = ToolCall(CallId(random.choice(calls)))
    new = harness.text("say") if random.random() < 0.3 else None
    if random.random() < 0.3:
        await random_pause()  # the target may have ended by now
    queued = random.choice(("keep", "keep", "cancel"))
    await harness.interrupt(session, scope, replace_with=new, queued=queued)
