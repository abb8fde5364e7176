"""Agents that crash, raise and hang, while callers keep sending."""

import random

import trio

from supervisor import Ladder, Restart, Session, Settings
from tests.simulation.harness import Harness, open_harness
from tests.simulation.scripted_agents import DEADLY
from tests.simulation.timing import random_pause, with_random_timeout

MODES = ("queue", "steer", "interrupt", "reject")


async def crash_agents() -> None:
    restart = Restart(
        policy=random.choice(("never", "on_crash", "always")),
        max_restarts=random.randrange(3),
        backoff_seconds=random.choice((0.0, 0.5)),
    )
    settings = Settings(restart=restart, ladder=Ladder(ask_seconds=2.0), exit_seconds=1.0)
    async with open_harness(settings=settings) as harness:
        session = await harness.sup.create("simulated")
        bystander = await harness.sup.create("simulated")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_crashing_inputs, harness, session)
            nursery.start_soon(send_crashing_inputs, harness, session)
            nursery.start_soon(stop_or_kill, harness, session)
            nursery.start_soon(harness.prompt, bystander, harness.text("say", "tool"))
        await harness.check_when_quiet()
        bystander_history = harness.oracle.history(bystander.id)
        harness.oracle.check(
            [*bystander_history.over.values()] == ["completed"],
            "the turn of a bystander was changed",
        )


async def send_crashing_inputs(harness: Harness, session: Session) -> None:
    for _ in range(3):
        text = harness.text(*random.choices(DEADLY, k=2))
        await with_random_timeout(harness.prompt, session, text)
        await harness.send(session, harness.text("say", "crash"), when_busy=random.choice(MODES))
        await random_pause()


async def stop_or_kill(harness: Harness, session: Session) -> None:
    for _ in range(3):
        await random_pause()
        match random.randrange(3):
            case 0:
                await with_random_timeout(harness.interrupt, session)
            case 1:
                await with_random_timeout(harness.stop, session)
            case _:
                await with_random_timeout(resume, harness, session)


async def resume(harness: Harness, session: Session) -> None:
    await harness.attempt(session.resume())
