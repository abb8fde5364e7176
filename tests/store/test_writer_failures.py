"""The writer while the store fails, callers are cancelled, or the mailbox is full."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from actors import (
    ActorError,
    ActorStopped,
    AskTimeout,
    Group,
    MailboxFull,
    Ref,
)
from actors.testing import settle
from supervisor.store.writer import MAX_BATCH, Writer
from supervisor.store.writer_messages import Claim, Commit
from tests.support.store_samples import ONE, TWO, creation_write, next_write, numbers_of
from tests.support.writer_callers import Callers, RecordingStore, names, stored_names


@pytest.fixture
def recording() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
async def writer(system: Group, recording: RecordingStore) -> Ref:
    return await system.start(lambda: Writer(recording), name="writer", restart="permanent")


@pytest.fixture
def _quiet() -> Iterator[None]:
    """Silence the log of intended crashes."""
    logger = logging.getLogger("actors")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.fixture
def callers(writer: Ref, nursery: trio.Nursery) -> Callers:
    return Callers(writer, nursery)


# A store that fails ---------------------------------------------------------------------


@pytest.mark.usefixtures("_quiet")
async def test_a_failed_commit_is_not_reported_as_written(
    recording: RecordingStore, callers: Callers
) -> None:
    recording.problems.append(OSError("the disk is on fire"))

    for name in names(3):
        callers.ask(Commit(creation_write(name)))
    await settle()

    assert [type(answer) for answer in callers.answers] == [ActorStopped] * 3
    assert all("unknown" in str(answer) for answer in callers.answers)
    assert await stored_names(recording) == []


@pytest.mark.usefixtures("_quiet")
async def test_requests_after_a_failed_commit_are_written(
    recording: RecordingStore, writer: Ref, callers: Callers
) -> None:
    recording.hold()
    recording.problems.append(OSError("the disk is on fire"))
    callers.ask(Commit(creation_write(ONE)))
    await settle()
    for name in names(3):
        callers.ask(Commit(creation_write(name)), "waits")
    await settle()

    recording.release()
    await settle()

    assert isinstance(callers.answer("0"), ActorStopped)
    assert [told for name, told in callers.told if name == "waits"] == [None] * 3
    assert sorted(await stored_names(recording)) == names(3)


@pytest.mark.usefixtures("_quiet")
async def test_a_failed_commit_is_not_retried_silently(
    recording: RecordingStore, writer: Ref, callers: Callers
) -> None:
    recording.problems.append(OSError("the disk is on fire"))
    callers.ask(Commit(creation_write(ONE)))
    await settle()

    await writer.ask(Commit(creation_write(TWO)))

    assert await stored_names(recording) == [TWO]


@pytest.mark.usefixtures("_quiet")
async def test_a_failed_commit_of_the_maximum_size_answers_every_caller(
    system: Group, recording: RecordingStore, nursery: trio.Nursery
) -> None:
    writer = await system.start(
        lambda: Writer(recording), name="large", restart="permanent", capacity=10_000
    )
    callers = Callers(writer, nursery)
    recording.problems.append(OSError("the disk is on fire"))

    for name in names(MAX_BATCH):
        callers.ask(Commit(creation_write(name)))
    await settle()

    assert len(callers.answers) == MAX_BATCH
    assert all(isinstance(answer, ActorError | OSError) for answer in callers.answers)


@pytest.mark.usefixtures("_quiet")
async def test_a_failed_claim_is_raised_in_the_caller(
    recording: RecordingStore, writer: Ref
) -> None:
    recording.problems.append(ValueError("these bytes are no Session"))

    with pytest.raises(ValueError, match="no Session"):
        await writer.ask(Claim(ONE))

    assert await writer.ask(Commit(creation_write(ONE))) is None


@pytest.mark.usefixtures("_quiet")
async def test_an_unreadable_session_does_not_affect_other_sessions(
    recording: RecordingStore, writer: Ref
) -> None:
    for _ in range(10):  # more often than a writer is restarted
        recording.problems.append(ValueError("these bytes are no Session"))
        with pytest.raises(ValueError, match="no Session"):
            await writer.ask(Claim(ONE))

    assert await writer.ask(Commit(creation_write(TWO))) is None


# Cancelled callers ----------------------------------------------------------------------


async def test_a_cancelled_caller_does_not_undo_its_write(
    recording: RecordingStore, writer: Ref, nursery: trio.Nursery
) -> None:
    recording.hold()
    with trio.CancelScope() as scope:
        nursery.start_soon(_after_settling, scope.cancel)
        await writer.ask(Commit(creation_write(ONE)))

    recording.release()

    assert scope.cancelled_caught
    assert await writer.ask(Commit(next_write(ONE, 2))) is None
    assert await numbers_of(recording) == [1, 2]


async def _after_settling(do: Any) -> None:  # noqa: ANN401 - any callable
    await settle()
    do()


async def test_a_caller_cancelled_in_the_mailbox_does_not_undo_its_write(
    recording: RecordingStore, writer: Ref, callers: Callers
) -> None:
    recording.hold()
    callers.ask(Commit(creation_write(ONE)))
    await settle()

    with trio.move_on_after(1.0):
        await writer.ask(Commit(creation_write(TWO)))
    recording.release()
    await settle()

    assert callers.answers == [None]
    assert await stored_names(recording) == [ONE, TWO]


async def test_a_caller_cancelled_before_asking_writes_nothing(
    recording: RecordingStore, writer: Ref
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await writer.ask(Commit(creation_write()))
    await settle()

    assert recording.batches == []


async def test_a_timed_out_caller_does_not_affect_its_commit(
    recording: RecordingStore, writer: Ref, callers: Callers
) -> None:
    recording.hold()
    callers.ask(Commit(creation_write(ONE)))

    with pytest.raises(AskTimeout):
        await writer.ask(Commit(creation_write(TWO)), timeout_seconds=2.0)
    recording.release()
    await settle()

    assert callers.answers == [None]
    assert sorted(await stored_names(recording)) == [ONE, TWO]


# A full mailbox -------------------------------------------------------------------------


@pytest.fixture
async def small(system: Group, recording: RecordingStore, nursery: trio.Nursery) -> Callers:
    """Return callers of a writer whose mailbox has space for two."""
    return Callers(await system.start(lambda: Writer(recording), name="small", capacity=2), nursery)


async def test_a_full_mailbox_refuses_and_accepted_requests_are_written(
    recording: RecordingStore, small: Callers
) -> None:
    recording.hold()
    for name in names(3):  # one being handled, two in the mailbox
        small.ask(Commit(creation_write(name)))
        await settle()

    with pytest.raises(MailboxFull):
        await small.writer.ask(Commit(creation_write(ONE)))
    recording.release()
    await settle()

    assert small.answers == [None] * 3
    assert await stored_names(recording) == names(3)


async def test_a_refused_caller_gets_its_request_back(
    recording: RecordingStore, small: Callers
) -> None:
    recording.hold()
    for name in names(3):
        small.ask(Commit(creation_write(name)))
        await settle()

    question = Commit(creation_write(ONE))
    with pytest.raises(MailboxFull) as refusal:
        await small.writer.ask(question)
    recording.release()

    assert refusal.value.message is question


async def test_a_writer_with_a_full_mailbox_still_commits(
    recording: RecordingStore, small: Callers
) -> None:
    recording.hold()
    for name in names(3):
        small.ask(Commit(creation_write(name)))
        await settle()
    small.ask(Commit(creation_write(ONE)), "urgent", urgent=True)
    await settle()

    recording.release()
    await settle()

    assert small.answers == [None] * 4
    assert sorted(await stored_names(recording)) == sorted([*names(3), ONE])


async def test_a_mailbox_that_was_full_accepts_requests_again(
    recording: RecordingStore, small: Callers
) -> None:
    recording.hold()
    for name in names(3):
        small.ask(Commit(creation_write(name)))
        await settle()
    with pytest.raises(MailboxFull):
        await small.writer.ask(Commit(creation_write(ONE)))
    recording.release()
    await settle()

    assert await small.writer.ask(Commit(creation_write(ONE))) is None
