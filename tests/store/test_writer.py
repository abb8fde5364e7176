"""The writer: many writes in one commit, answers after it, everything in order."""

from __future__ import annotations

import math
import random

import pytest
import trio

from actors import ActorStopped, Group, Ref, open_actors
from actors.testing import explore, settle
from supervisor.core.errors import Fenced, NotStorable
from supervisor.core.ids import SessionId
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Stored
from supervisor.store.writer import MAX_BATCH, Writer
from supervisor.store.writer_messages import Claim, Commit, Delete
from tests.support.store_samples import ONE, TWO, UNKNOWN, creation_write, next_write, numbers_of
from tests.support.writer_callers import BEFORE, Callers, RecordingStore, names, stored_names


@pytest.fixture
def recording() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
async def writer(system: Group, recording: RecordingStore) -> Ref:
    return await system.start(lambda: Writer(recording), name="writer", restart="permanent")


@pytest.fixture
def callers(writer: Ref, nursery: trio.Nursery) -> Callers:
    return Callers(writer, nursery)


# Many writes, few commits ---------------------------------------------------------------


async def test_concurrent_requests_are_written_in_one_commit(
    recording: RecordingStore, callers: Callers
) -> None:
    for name in names(100):
        callers.ask(Commit(creation_write(name)))
    await settle()

    assert recording.batch_sizes == [100]
    assert callers.answers == [None] * 100
    assert callers.writer.statistics().handled == 101  # the requests, and one flush


async def test_requests_during_a_commit_are_in_the_next_commit(
    recording: RecordingStore, callers: Callers
) -> None:
    recording.hold()
    callers.ask(Commit(creation_write(ONE)))
    await settle()

    for name in names(50):
        callers.ask(Commit(creation_write(name)))
    await settle()
    recording.release()
    await settle()

    assert recording.batch_sizes == [1, 50]
    assert callers.answers == [None] * 51


async def test_a_commit_is_bounded(
    recording: RecordingStore, writer: Ref, nursery: trio.Nursery
) -> None:
    callers = Callers(writer, nursery)
    recording.hold()
    callers.ask(Commit(creation_write(ONE)))
    await settle()

    for name in names(1_000):  # the size of the mailbox
        callers.ask(Commit(creation_write(name)))
    await settle()
    recording.release()
    await settle()

    assert max(recording.batch_sizes) <= MAX_BATCH
    assert callers.answers == [None] * 1_001


async def test_many_requests_take_as_few_commits_as_possible(
    system: Group, recording: RecordingStore, nursery: trio.Nursery
) -> None:
    writer = await system.start(lambda: Writer(recording), name="large", capacity=10_000)
    callers = Callers(writer, nursery)

    for name in names(2_500):
        callers.ask(Commit(creation_write(name)))
    await settle()

    assert recording.batch_sizes == [1_000, 1_000, 500]
    assert callers.answers == [None] * 2_500


async def test_a_single_request_is_committed_without_delay(
    writer: Ref, recording: RecordingStore
) -> None:
    assert await writer.ask(Commit(creation_write())) is None

    assert trio.current_time() == 0.0
    assert recording.batch_sizes == [1]


async def test_there_is_no_commit_without_a_request(writer: Ref, recording: RecordingStore) -> None:
    await writer.ask(Claim(UNKNOWN))
    await writer.ask(Delete(UNKNOWN))
    await writer.ask(Commit(creation_write()))
    await settle()

    assert recording.batch_sizes == [1]


# Answers --------------------------------------------------------------------------------


async def test_no_request_is_answered_before_the_commit(
    recording: RecordingStore, callers: Callers
) -> None:
    recording.hold()
    callers.ask(Commit(creation_write(ONE)))
    callers.ask(Commit(creation_write(TWO)))
    await settle()
    assert recording.batches
    assert callers.answers == []

    recording.release()
    await settle()

    assert callers.answers == [None, None]
    assert sorted(await stored_names(recording)) == [ONE, TWO]


async def test_every_caller_gets_its_own_answer(
    recording: RecordingStore, callers: Callers
) -> None:
    await callers.in_turn(
        recording,
        Commit(creation_write(ONE)),
        Commit(next_write(TWO, 7)),
        Commit(next_write(ONE, 2, epoch=3)),
        Commit(next_write(ONE, 2)),
    )
    recording.release()
    await settle()

    assert recording.batch_sizes == [1, 4]
    assert callers.answer("0") is None
    assert isinstance(callers.answer("1"), NotStorable | Fenced)
    assert isinstance(callers.answer("2"), Fenced)
    assert callers.answer("3") is None


# Order ----------------------------------------------------------------------------------


async def test_requests_are_written_in_order(recording: RecordingStore, callers: Callers) -> None:
    asked = names(300)
    random.Random(1).shuffle(asked)

    await callers.in_turn(recording, *(Commit(creation_write(name)) for name in asked))
    recording.release()
    await settle()

    assert [write.session_id for write in recording.batches[1]] == asked
    assert await stored_names(recording) == [BEFORE, *asked]


async def test_a_claim_has_its_place_among_the_writes(
    recording: RecordingStore, callers: Callers
) -> None:
    await callers.in_turn(
        recording,
        Commit(creation_write(ONE)),
        Commit(next_write(ONE, 2)),
        Claim(ONE),
        Commit(next_write(ONE, 3)),
        Commit(next_write(ONE, 3, epoch=1)),
    )
    recording.release()
    await settle()

    claimed = callers.answer("2")
    assert isinstance(claimed, Stored)
    assert (claimed.epoch, claimed.last_seq) == (1, 2)
    assert isinstance(callers.answer("3"), Fenced)
    assert callers.answer("4") is None
    assert recording.deeds == ["commit 1", "commit 2", "claim s_one", "commit 2"]


async def test_a_claim_waits_for_the_commit_before_it(
    recording: RecordingStore, callers: Callers
) -> None:
    await callers.in_turn(recording, Claim(BEFORE))
    assert (callers.answers, recording.deeds) == ([], [])

    recording.release()
    await settle()

    assert isinstance(callers.answer("0"), Stored)


async def test_a_deletion_has_its_place_among_the_writes(
    recording: RecordingStore, callers: Callers
) -> None:
    await callers.in_turn(
        recording,
        Commit(creation_write(ONE)),
        Commit(next_write(ONE, 2)),
        Delete(ONE),
        Commit(creation_write(TWO)),
        Claim(ONE),
    )
    recording.release()
    await settle()

    assert recording.deeds == ["commit 1", "commit 2", "delete s_one", "commit 1", "claim s_one"]
    assert callers.answers == [None] * 6
    assert await stored_names(recording) == [BEFORE, TWO]


# Stopping -------------------------------------------------------------------------------


class StoppingWriter(Writer):
    """A writer that is stopped after it accepted a hundred writes and wrote none."""

    async def receive(self, message: object) -> object:
        answer = await super().receive(message)
        if len(self._batch) == 100:
            self.ref.stop_nowait()
        return answer


async def test_accepted_requests_are_written_when_the_writer_stops(
    system: Group, recording: RecordingStore, nursery: trio.Nursery
) -> None:
    callers = Callers(await system.start(lambda: StoppingWriter(recording)), nursery)

    for name in names(150):
        callers.ask(Commit(creation_write(name)), name)
    await settle()

    assert recording.batch_sizes == [100]
    acknowledged = [name for name, told in callers.told if told is None]
    assert sorted(acknowledged) == sorted(await stored_names(recording))
    assert [type(told) for told in callers.answers if told is not None] == [ActorStopped] * 50


async def test_a_running_commit_is_finished_when_the_writer_stops(
    recording: RecordingStore, writer: Ref, callers: Callers, nursery: trio.Nursery
) -> None:
    recording.hold()
    callers.ask(Commit(creation_write(ONE)))
    await settle()

    nursery.start_soon(writer.stop)
    await trio.sleep(4.0)
    recording.release()
    await settle()

    assert callers.answers == [None]
    assert await stored_names(recording) == [ONE]


async def test_a_commit_that_never_ends_has_an_unknown_outcome(
    recording: RecordingStore, writer: Ref, callers: Callers
) -> None:
    recording.hold()
    callers.ask(Commit(creation_write(ONE)))
    await settle()
    callers.ask(Commit(creation_write(TWO)), "waits")
    await settle()

    await writer.stop()
    await settle()

    assert trio.current_time() == 5.0
    assert [type(answer) for answer in callers.answers] == [ActorStopped, ActorStopped]
    assert "unknown" in str(callers.answer("0"))
    assert "not known" not in str(callers.answer("waits"))


async def test_requests_after_the_end_are_refused(writer: Ref) -> None:
    await writer.stop()

    with pytest.raises(ActorStopped):
        await writer.ask(Commit(creation_write()), timeout_seconds=math.inf)


# Random schedules -----------------------------------------------------------------------


class Owner:
    """A writer of one session's records that does not wait and may lose it to another owner."""

    def __init__(self, writer: Ref, session_id: SessionId) -> None:
        self.writer = writer
        self.session_id = session_id
        self.written: list[tuple[int, int]] = []  # epoch and number of what is acknowledged
        self.fenced: list[tuple[int, int]] = []

    async def live(self) -> None:
        assert (
            await self.writer.ask(Commit(creation_write(self.session_id)), timeout_seconds=math.inf)
            is None
        )
        self.written.append((0, 1))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(self._write_until_fenced)

    async def _write_until_fenced(self) -> None:
        stored = await self.writer.ask(Claim(self.session_id), timeout_seconds=math.inf)
        assert stored is not None
        for number in range(stored.last_seq + 1, stored.last_seq + 4):
            write = next_write(self.session_id, number, epoch=stored.epoch)
            answer = await self.writer.ask(Commit(write), timeout_seconds=math.inf)
            if isinstance(answer, Fenced):
                self.fenced.append((stored.epoch, number))
                return
            assert answer is None
            self.written.append((stored.epoch, number))


async def compete_for_sessions() -> None:
    store = MemoryStore()
    async with open_actors() as system:
        writer = await system.start(lambda: Writer(store), capacity=random.choice((8, 100)))
        owners = [Owner(writer, name) for name in names(2)]
        async with trio.open_nursery() as nursery:
            for owner in owners:
                nursery.start_soon(owner.live)
        await writer.stop()
    for owner in owners:
        written = sorted(owner.written, key=lambda pair: pair[1])
        assert [number for _, number in written] == await numbers_of(store, owner.session_id)
        assert [epoch for epoch, _ in written] == sorted(epoch for epoch, _ in written)


def test_acknowledged_writes_are_stored_and_fenced_writes_are_not() -> None:
    assert (
        explore(compete_for_sessions, seeds=range(150), max_failures=3, early_timeouts=True) == []
    )
