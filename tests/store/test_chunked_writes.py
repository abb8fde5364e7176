"""The writer interleaves chunked inserts and purges with other writes."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
import trio

from actors import Ask, Group, Ref
from actors.testing import settle
from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.store import chunks
from supervisor.store.pending import PendingWrite, StoreHealth
from supervisor.store.sqlite import bulk as sql
from supervisor.store.writer import Writer
from supervisor.store.writer_messages import (
    AwaitPurge,
    Commit,
    Delete,
    InsertChunked,
    OptimizeIndex,
    Retry,
)
from tests.support.chunked_sessions import COUNT, LARGE, RecordingStore, large, text, visible_data
from tests.support.store_samples import (
    ONE,
    TWO,
    UNKNOWN,
    creation_write,
    numbers_of,
    visible_data_of,
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((chunks, "CHUNK_RECORDS"), (sql, "_CHUNK_RECORDS")):
        monkeypatch.setattr(module, name, LARGE)


@pytest.fixture
def recording() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
async def writer(system: Group, recording: RecordingStore, health: StoreHealth) -> Ref:
    return await system.start(lambda: Writer(recording, health), name="writer", restart="permanent")


async def ask_all(writer: Ref, *questions: Ask[Any]) -> list[Any]:
    """Send all requests at once and wait for all answers."""
    answers: list[Any] = [None] * len(questions)

    async def ask(number: int, question: Ask[Any]) -> None:
        answers[number] = await writer.ask(question, timeout_seconds=math.inf)

    async with trio.open_nursery() as nursery:
        for number, question in enumerate(questions):
            nursery.start_soon(ask, number, question)
            await settle()
    return answers


async def ask_during_chunks(recording: RecordingStore, writer: Ref, question: Ask[Any]) -> Any:  # noqa: ANN401
    """Return the answer to a request, with another write requested in the middle of each chunk."""
    names = iter(SessionId(f"s_{number}") for number in range(100))

    async def write() -> None:
        await writer.ask(Commit(creation_write(next(names))), timeout_seconds=math.inf)

    async with trio.open_nursery() as nursery:

        async def request_write() -> None:
            nursery.start_soon(write)
            await settle()

        recording.meanwhile = request_write
        return await writer.ask(question, timeout_seconds=math.inf)


async def test_other_writes_run_between_the_chunks_of_an_insert(
    writer: Ref, recording: RecordingStore
) -> None:
    assert await ask_during_chunks(recording, writer, InsertChunked(large())) is None

    assert recording.calls == [
        *(
            "insert_part 7",
            "commit s_0",
            "insert_part 7",
            "commit s_1",
            "insert_part 7",
            "commit s_2",
        ),
        f"commit {ONE}",
    ]
    assert await numbers_of(recording) == list(range(1, COUNT + 1))


async def test_other_writes_run_during_a_purge(writer: Ref, recording: RecordingStore) -> None:
    await writer.ask(Commit(large()))
    recording.calls.clear()

    await ask_during_chunks(recording, writer, Delete(ONE))

    assert recording.calls[:6] == [
        *(f"delete {ONE}", "clear", "commit s_0", "clear", "commit s_1", "clear"),
    ]


async def test_a_deletion_by_another_write_is_purged_without_a_request(
    writer: Ref, recording: RecordingStore
) -> None:
    await writer.ask(Commit(large()))
    await writer.ask(Commit(creation_write(TWO).changed(deletes=ONE)))
    await settle()

    assert "clear" in recording.calls


async def test_the_writer_optimizes_the_index_in_chunks(
    writer: Ref, recording: RecordingStore
) -> None:
    writer.tell(OptimizeIndex())
    await settle()

    assert recording.calls == ["tidy"] * 3


async def test_an_unstorable_insert_is_refused_and_removed(
    writer: Ref, recording: RecordingStore
) -> None:
    bad = Record(ONE, COUNT + 1, math.nan, None, "plan", {})
    write = large().changed(records=(*large().records, bad))
    refusal = await writer.ask(InsertChunked(write), timeout_seconds=math.inf)
    assert isinstance(refusal, NotStorable)

    others = (text(ONE, seq) for seq in range(11, 30))
    early = write.changed(records=(*write.records[:9], attrs.evolve(bad, seq=10), *others))
    with pytest.raises(NotStorable):
        await writer.ask(InsertChunked(early), timeout_seconds=math.inf)

    await writer.ask(AwaitPurge())
    assert await visible_data(recording) == []
    assert await writer.ask(InsertChunked(large())) is None  # and it can be inserted again


async def test_chunked_work_continues_after_the_store_recovers(
    writer: Ref, recording: RecordingStore, health: StoreHealth
) -> None:
    async with trio.open_nursery() as nursery:
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await writer.ask(InsertChunked(large()), timeout_seconds=math.inf))

        nursery.start_soon(ask)
        while "insert_part 7" not in recording.calls:
            await trio.lowlevel.checkpoint()
        recording.is_ill = True
        await settle()
        assert health.is_degraded
        held = await writer.ask(Commit(creation_write(TWO)))
        assert isinstance(held, PendingWrite)
        recording.is_ill = False
        await writer.ask(Retry(), timeout_seconds=math.inf)

    assert answers == [None]
    assert await numbers_of(recording) == list(range(1, COUNT + 1))
    assert await numbers_of(recording, TWO) == [1]


async def test_a_new_writer_continues_the_purge_of_the_last_writer(
    system: Group, recording: RecordingStore
) -> None:
    recording.left = 2

    await system.start(lambda: Writer(recording), name="writer")
    await settle()

    assert recording.calls == ["clear"] * 2


async def test_a_purge_of_nothing_is_answered_at_once(
    writer: Ref, recording: RecordingStore
) -> None:
    await ask_all(writer, AwaitPurge(), Delete(UNKNOWN), AwaitPurge())

    assert await visible_data_of(recording) == ([], [])


@pytest.mark.parametrize("when", ["clear", "tidy"])
async def test_a_writer_can_stop_between_two_chunks(
    system: Group, recording: RecordingStore, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    recording.left = 3
    writer = await system.start(lambda: Writer(recording), name="writer")
    writer.tell(OptimizeIndex())

    async def stop() -> None:
        if recording.calls[-1] == when:
            writer.stop_nowait()

    recording.meanwhile = stop
    await writer.wait_stopped()

    assert caplog.records == []
