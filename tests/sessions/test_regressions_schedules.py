"""Races between what two callers want of a session, each as small as it gets."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest
import trio

from actors.testing import explore
from supervisor import InterruptReport, KeyTaken, Session, SupervisorError
from tests.simulation.ledger import PromiseBroken
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import wander

KEY = "player:here:me"


@pytest.fixture(autouse=True)
def _quiet_supervisor() -> Iterator[None]:
    """Crashes on purpose are no news."""
    logger = logging.getLogger("supervisor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


async def step_aside() -> None:
    """Let others go first, but not for long: what races is a few steps long."""
    for _ in range(random.randrange(8)):
        await trio.lowlevel.checkpoint()


# One key, one bearer --------------------------------------------------------------------------


async def archive_while_it_is_unarchived() -> None:
    async with open_stage() as stage:
        old = await stage.sup.create("player", key=KEY)
        await old.stop()
        async with trio.open_nursery() as nursery:
            for change in (old.archive, old.unarchive, old.archive, old.unarchive):
                nursery.start_soon(stage.try_to, change())
                await step_aside()
            nursery.start_soon(stage.try_to, stage.sup.create("player", key=KEY))
        live = (await stage.sup.list(archived=False)).items
        if len(live) > 1:
            raise PromiseBroken(f"one key has {len(live)} bearers")
        another = await stage.try_to(stage.sup.create("player", key=KEY))
        if isinstance(another, KeyTaken) != bool(live):
            raise PromiseBroken(f"{len(live)} bear the key, and create() gives {another}")


def test_a_key_has_one_bearer_though_one_is_archived_and_unarchived_at_once() -> None:
    assert explore(archive_while_it_is_unarchived, seeds=range(200), max_failures=1) == []


# Interrupts that hit nothing ------------------------------------------------------------------


async def interrupt_one_that_goes_to_rest() -> None:
    async with open_stage() as stage:
        session = await stage.sup.create("player")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.try_to, session.stop())
            await step_aside()
            for _ in range(3):
                nursery.start_soon(interrupt_nothing, stage, session)
                await step_aside()


async def interrupt_nothing(stage: Stage, session: Session) -> None:
    report = await stage.try_to(session.interrupt())
    if not isinstance(report, InterruptReport) or report.matched:
        raise PromiseBroken(f"nothing ran, and an interrupt says {report}")


def test_an_interrupt_that_meets_a_session_going_to_rest_hits_nothing_and_says_so() -> None:
    assert explore(interrupt_one_that_goes_to_rest, seeds=range(100), max_failures=1) == []


# Forks ----------------------------------------------------------------------------------------


async def fork_while_sending() -> None:
    async with open_stage() as stage:
        session = await stage.sup.create("player")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.send, session, stage.text("say"))
            await wander()
            nursery.start_soon(fork_and_look, stage, session)


async def fork_and_look(stage: Stage, session: Session) -> None:
    fork = await stage.try_to(session.fork())
    if isinstance(fork, SupervisorError):
        return
    said = [message.role for message in await fork.transcript()]
    if said and said[-1] == "user":
        raise PromiseBroken("a fork has a question and no answer to it")


def test_a_fork_has_no_half_of_a_turn() -> None:
    assert explore(fork_while_sending, seeds=range(100), max_failures=1) == []
