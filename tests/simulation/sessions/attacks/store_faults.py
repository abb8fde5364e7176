"""The store fails and refuses, sessions are claimed by others: nothing acknowledged is lost."""

import random

import trio

from supervisor import Ladder, Session, Settings
from tests.simulation.harness import Harness, open_harness
from tests.simulation.scripted_agents import QUIET
from tests.simulation.timing import random_pause, with_random_timeout


async def fail_store_writes() -> None:
    settings = Settings(
        ladder=Ladder(ask_seconds=2.0), suspend_after_seconds=random.choice((0.25, 900.0))
    )
    async with open_harness(settings=settings) as harness:
        session = await harness.sup.create("simulated")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_repeatedly, harness, session)
            nursery.start_soon(send_repeatedly, harness, session)
            nursery.start_soon(interrupt_repeatedly, harness, session)
            nursery.start_soon(harness.inject_faults, session)
        harness.store.faults.clear()
        await harness.prompt(session, harness.text("say"))
        await harness.check_when_quiet()


async def send_repeatedly(harness: Harness, session: Session) -> None:
    for number in range(3):
        text = harness.text(*random.choices((*QUIET, "hang"), k=3))
        mode = random.choice(("queue", "steer", "interrupt"))
        key = f"key {number}" if random.random() < 0.5 else None
        await with_random_timeout(submit_once, harness, session, text, mode, key)
        await random_pause()


async def submit_once(
    harness: Harness, session: Session, text: str, mode: str, key: str | None
) -> None:
    if random.random() < 0.5:
        await harness.send(session, text, when_busy=mode, idempotency_key=key and f"{key} {text}")
    else:
        await harness.prompt(session, text, when_busy=mode)


async def interrupt_repeatedly(harness: Harness, session: Session) -> None:
    for _ in range(2):
        await random_pause()
        await with_random_timeout(harness.interrupt, session)
