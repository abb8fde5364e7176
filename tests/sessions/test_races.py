"""Races between requests of two callers on one session, explored over many schedules."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest
import trio

from actors.testing import explore
from supervisor import InterruptReport, KeyTaken, Session, SupervisorError
from tests.simulation.harness import Harness, open_harness
from tests.simulation.timing import random_pause
from tests.simulation.violations import PropertyViolated

KEY = "simulated:here:me"


@pytest.fixture(autouse=True)
def _quiet_supervisor() -> Iterator[None]:
    """Silence the log: these tests crash on purpose."""
    logger = logging.getLogger("supervisor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


async def step_aside() -> None:
    """Yield to other tasks for a few checkpoints, the length of the races explored here."""
    for _ in range(random.randrange(8)):
        await trio.lowlevel.checkpoint()


# One holder per key --------------------------------------------------------------------------


async def archive_while_it_is_unarchived() -> None:
    async with open_harness() as harness:
        old = await harness.sup.create("simulated", key=KEY)
        await old.stop()
        async with trio.open_nursery() as nursery:
            for change in (old.archive, old.unarchive, old.archive, old.unarchive):
                nursery.start_soon(harness.attempt, change())
                await step_aside()
            nursery.start_soon(harness.attempt, harness.sup.create("simulated", key=KEY))
        live = (await harness.sup.list(archived=False)).items
        if len(live) > 1:
            raise PropertyViolated(f"one key has {len(live)} holders")
        another = await harness.attempt(harness.sup.create("simulated", key=KEY))
        if isinstance(another, KeyTaken) != bool(live):
            raise PropertyViolated(f"{len(live)} hold the key, and create() returned {another}")


def test_a_key_has_one_holder_despite_concurrent_archive_and_unarchive() -> None:
    assert (
        explore(
            archive_while_it_is_unarchived, seeds=range(200), max_failures=1, early_timeouts=True
        )
        == []
    )


# Interrupts that hit nothing ------------------------------------------------------------------


async def interrupt_one_that_goes_to_rest() -> None:
    async with open_harness() as harness:
        session = await harness.sup.create("simulated")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.attempt, session.stop())
            await step_aside()
            for _ in range(3):
                nursery.start_soon(interrupt_nothing, harness, session)
                await step_aside()


async def interrupt_nothing(harness: Harness, session: Session) -> None:
    report = await harness.attempt(session.interrupt())
    if not isinstance(report, InterruptReport) or report.matched:
        raise PropertyViolated(f"nothing ran, and an interrupt says {report}")


def test_an_interrupt_of_a_suspending_session_reports_no_target() -> None:
    assert (
        explore(
            interrupt_one_that_goes_to_rest, seeds=range(100), max_failures=1, early_timeouts=True
        )
        == []
    )


# Forks ----------------------------------------------------------------------------------------


async def fork_while_sending() -> None:
    async with open_harness() as harness:
        session = await harness.sup.create("simulated")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.send, session, harness.text("say"))
            await random_pause()
            nursery.start_soon(fork_and_look, harness, session)


async def fork_and_look(harness: Harness, session: Session) -> None:
    fork = await harness.attempt(session.fork())
    if isinstance(fork, SupervisorError):
        return
    said = [message.role for message in await fork.transcript()]
    if said and said[-1] == "user":
        raise PropertyViolated("a fork has a question and no answer to it")


def test_a_fork_has_no_half_of_a_turn() -> None:
    assert explore(fork_while_sending, seeds=range(100), max_failures=1, early_timeouts=True) == []
