"""Large inserts and deletions are done in chunks, and no reader visible_data part of one."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors import Ask, Group, Ref, open_actors
from actors.testing import settle
from supervisor.core.errors import NotStorable, StoreDegraded, SupervisorError
from supervisor.core.ids import InputId, SessionId
from supervisor.core.records import Record
from supervisor.store import chunks
from supervisor.store.memory import MemoryStore
from supervisor.store.pending import PendingWrite, StoreHealth
from supervisor.store.port import Store, Unfinished, Write
from supervisor.store.sqlite import bulk as sql
from supervisor.store.sqlite.store import SqliteStore, open_sqlite
from supervisor.store.writer import (
    AwaitPurge,
    Commit,
    Delete,
    InsertChunked,
    OptimizeIndex,
    Retry,
    Writer,
)
from tests.support.store_samples import (
    NOBODY,
    ONE,
    TWO,
    birth,
    everything,
    more,
    numbers_of,
    receipt,
)

COUNT = 25
INPUT = InputId("in_1")
LARGE = 7  # records in a chunk


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((chunks, "CHUNK_RECORDS"), (sql, "_CHUNK_RECORDS")):
        monkeypatch.setattr(module, name, LARGE)


def text(session_id: SessionId, seq: int) -> Record:
    body = {"text": f"word{seq} common", "part": None}
    return Record(session_id, seq, 2.0, None, "user_text", body)


def large(session_id: SessionId = ONE, count: int = COUNT) -> Write:
    """Return the first write of a session with `count` records."""
    made = birth(session_id)
    said = (text(session_id, seq) for seq in range(2, count))
    body = {"input_id": INPUT, "text": "x", "when_busy": "queue"}
    accepted = Record(session_id, count, 2.0, None, "input_accepted", body)
    return attrs.evolve(
        made, records=(*made.records, *said, accepted), stored_reply=receipt(session_id)
    )


async def insert_part(store: Store, write: Write, first: int = 0, last: int | None = None) -> None:
    await store.insert_chunk(write.session_id, write.records[first:last])


def rest_of(write: Write, first: int) -> Write:
    return attrs.evolve(write, records=write.records[first:])


async def visible_data(store: Store, session_id: SessionId = ONE) -> list[object]:
    """Return everything that a reader can see of the session."""
    seen: list[object] = [
        *[one for one in await store.startup_rows() if session_id in str(one)],
        *[one async for one in store.rows() if one.row.id == session_id],
        *await store.records(session_id),
        *await store.raw_records(session_id),
        *await store.records_of_input(session_id, INPUT),
        *[one for _, one in await store.all_records() if one.session_id == session_id],
        *[
            one
            for one in await store.records_of_kinds(["user_text"])
            if one.session_id == session_id
        ],
        *[one for one in await store.search("common") if one.session_id == session_id],
        *[name for name in await store.sizes() if name == session_id],
    ]
    found = (await store.read(session_id), await store.stored_reply(session_id, "key"))
    return seen + [one for one in found if one is not None]


def tables_with(path: Path, session_id: SessionId = ONE) -> list[str]:
    """Return the tables that contain the session."""
    with closing(sqlite3.connect(path)) as connection:
        tables = ("sessions", "records", "kept", "snapshots", "unfinished")
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608
    return [name for name, found in rows.items() if session_id in repr(found)]


# Inserting ----------------------------------------------------------------------------------


async def test_an_incomplete_session_is_invisible(store: Store) -> None:
    write = large()
    await insert_part(store, write, 0, 10)
    await insert_part(store, write, 10, 20)
    assert await visible_data(store) == []

    assert await store.commit([rest_of(write, 20)]) == [None]

    assert await store.records(ONE) == list(write.records)
    stored = await store.read(ONE)
    assert stored is not None
    assert (stored.row, stored.last_seq) == (write.row, COUNT)
    assert len(await store.search("common", limit=100)) == COUNT - 2
    assert await store.stored_reply(ONE, "key") == write.stored_reply


async def test_a_reader_of_all_records_never_passes_an_incomplete_session(store: Store) -> None:
    write = large()
    await store.commit([birth(TWO)])
    await insert_part(store, write, 0, 20)
    await store.commit([more(TWO, 2)])
    before = await store.all_records()
    assert [one.session_id for _, one in before] == [TWO]

    await store.commit([rest_of(write, 20)])

    after = await store.all_records(after=before[-1][0])
    assert [(one.session_id, one.seq) for _, one in after] == [
        *((ONE, seq) for seq in range(1, 21)),
        (TWO, 2),
        *((ONE, seq) for seq in range(21, COUNT + 1)),
    ]
    assert [place for place, _ in after] == sorted({place for place, _ in after})


async def test_an_existing_session_or_a_gap_cannot_be_inserted(store: Store) -> None:
    await store.commit([birth(TWO)])
    write = large()

    with pytest.raises(NotStorable):
        await store.insert_chunk(TWO, [text(TWO, 2)])
    with pytest.raises(NotStorable):
        await insert_part(store, write, 1, 5)
    await insert_part(store, write, 0, 5)
    with pytest.raises(NotStorable):
        await insert_part(store, write, 6, 8)
    [refusal] = await store.commit([rest_of(write, 6)])

    assert isinstance(refusal, NotStorable)
    assert await visible_data(store) == []
    assert await store.commit([rest_of(write, 5)]) == [None]


async def test_an_incomplete_session_can_be_deleted(store: Store) -> None:
    await insert_part(store, large(), 0, 20)

    await store.delete(ONE)
    while await store.purge_deleted():
        pass

    assert await visible_data(store) == []
    assert await store.commit([large()]) == [None]
    assert await numbers_of(store) == list(range(1, COUNT + 1))


async def test_an_incomplete_session_of_an_earlier_writer_is_removed(store: Store) -> None:
    await insert_part(store, large(), 0, 20)

    await store.find_unfinished()
    while await store.purge_deleted():
        pass

    assert await store.commit([large()]) == [None]
    assert await numbers_of(store) == list(range(1, COUNT + 1))


async def test_replies_under_the_id_of_an_incomplete_session_are_removed(store: Store) -> None:
    write = large()
    await insert_part(store, write, last=5)
    await store.commit([attrs.evolve(birth(TWO), stored_reply=receipt(ONE))])

    await store.find_unfinished()
    while await store.purge_deleted():
        pass

    assert await store.stored_reply(ONE, "key") is None


# Deleting -----------------------------------------------------------------------------------


async def test_a_partly_purged_session_is_invisible(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(), birth(TWO)])
        await store.delete(ONE)

        pauses = 0
        assert tables_with(store.path) == ["records", "unfinished"]
        while await store.purge_deleted():
            pauses += 1
            assert await visible_data(store) == []
        assert tables_with(store.path) == []
        assert pauses == 2
        assert await numbers_of(store, TWO) == [1]


async def test_a_session_recreated_during_the_purge_is_new(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large()])
        await store.delete(ONE)

        assert await store.commit([birth(ONE)]) == [None]

        assert await numbers_of(store) == [1]
        assert await store.search("common") == []
        assert not await store.purge_deleted()


async def test_a_small_session_is_purged_at_once(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(count=LARGE)])
        await store.delete(ONE)

        assert tables_with(store.path) == []


async def test_a_deletion_in_a_write_is_visible_with_it(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(), birth(TWO)])
        write = attrs.evolve(more(TWO, 2), deletes=ONE)

        assert await store.commit([write]) == [None]

        assert await visible_data(store) == []
        assert tables_with(store.path) == ["records", "unfinished"]


async def test_the_index_is_optimized_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_CHUNK_PAGES", 1)
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(TWO)])
        for number in range(20):
            one = SessionId(f"s_{number}")
            animal = "zebra" if number < 10 else "okapi"
            words = " ".join(f"{animal}{number}x{each}" for each in range(500))
            record = Record(one, 2, 2.0, None, "user_text", {"text": words})
            await store.commit([birth(one), Write(one, 0, (record,))])
        for number in range(10):
            await store.delete(SessionId(f"s_{number}"))
        assert b"zebra" in index_of(store.path)

        tidied = 0
        while await store.optimize_index():
            tidied += 1

        assert tidied > 1
        assert b"zebra" not in index_of(store.path)
        assert len(await store.search("common", limit=100)) == COUNT - 2


def index_of(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        return b"".join(block for (block,) in connection.execute("SELECT block FROM words_data"))


# Kills between chunks -----------------------------------------------------------------------


def copy_after_kill(store: SqliteStore, folder: Path) -> Path:
    """Return a copy of the files, as a kill leaves them."""
    folder.mkdir()
    for one in store.path.parent.glob("state.db*"):
        shutil.copy(one, folder)
    return folder / store.path.name


async def reopened(path: Path) -> tuple[list[Any], list[str]]:
    """Return the content of the store after the next supervisor's writer has run."""
    async with open_sqlite(path) as store, open_actors() as system:
        writer = await system.start(lambda: Writer(store), name="writer")
        seen = await visible_data(store)
        await writer.ask(AwaitPurge())
        assert await visible_data(store) == seen
        assert seen == [] or await numbers_of(store) == list(range(1, COUNT + 1))
        left = tables_with(path)
        await writer.stop()
        return seen, left


async def test_a_crash_between_chunks_leaves_all_or_nothing(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        found: list[tuple[list[Any], list[str]]] = []

        async def die() -> None:
            found.append(await reopened(copy_after_kill(store, tmp_path / str(len(found)))))

        write = large()
        for first in range(0, 20, 5):
            await insert_part(store, write, first, first + 5)
            await die()
        await store.commit([rest_of(write, 20)])
        await die()
        await store.delete(ONE)
        await die()
        while await store.purge_deleted():
            await die()

    assert [bool(seen) for seen, _ in found] == [False] * 4 + [True] + [False] * 3
    assert [left for seen, left in found if not seen] == [[]] * 7


# The writer ---------------------------------------------------------------------------------


class RecordingStore(MemoryStore):
    """A store that records the calls of the writer and purges in three chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.is_ill = False
        self.left = 0
        # Called during a chunk.
        self.meanwhile: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    def _note(self, deed: str) -> None:
        if self.is_ill:
            raise StoreDegraded("the disk is full", hint="free some space")
        self.calls.append(deed)

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self._note(f"commit {' '.join(write.session_id for write in writes)}")
        return await super().commit(writes)

    async def insert_chunk(self, session_id: SessionId, records: Sequence[Record]) -> None:
        self._note(f"insert_part {len(records)}")
        await self.meanwhile()
        await super().insert_chunk(session_id, records)

    async def delete(self, session_id: SessionId) -> None:
        self._note(f"delete {session_id}")
        self.left = 3
        await super().delete(session_id)

    async def purge_deleted(self) -> bool:
        self._note("clear")
        await self.meanwhile()
        self.left = max(0, self.left - 1)
        await super().purge_deleted()
        return self.left > 0

    async def probe(self) -> None:
        self._note("probe")
        await super().probe()

    async def optimize_index(self) -> bool:
        self._note("tidy")
        await self.meanwhile()
        return self.calls.count("tidy") % 3 != 0

    async def find_unfinished(self) -> Unfinished:
        await super().find_unfinished()
        return Unfinished(needs_purge=self.left > 0, needs_optimize=False)


@pytest.fixture
def recording() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
async def system() -> AsyncIterator[Group]:
    async with open_actors() as root:
        yield root


@pytest.fixture
def health() -> StoreHealth:
    return StoreHealth()


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
        await writer.ask(Commit(birth(next(names))), timeout_seconds=math.inf)

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
    await writer.ask(Commit(attrs.evolve(birth(TWO), deletes=ONE)))
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
    write = attrs.evolve(large(), records=(*large().records, bad))
    refusal = await writer.ask(InsertChunked(write), timeout_seconds=math.inf)
    assert isinstance(refusal, NotStorable)

    others = (text(ONE, seq) for seq in range(11, 30))
    early = attrs.evolve(write, records=(*write.records[:9], attrs.evolve(bad, seq=10), *others))
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
        held = await writer.ask(Commit(birth(TWO)))
        assert isinstance(held, PendingWrite)
        recording.is_ill = False
        await writer.ask(Retry(), timeout_seconds=math.inf)

    assert answers == [None]
    assert await numbers_of(recording) == list(range(1, COUNT + 1))
    assert await numbers_of(recording, TWO) == [1]


async def test_a_new_writer_continues_the_purge_of_the_last_one(
    system: Group, recording: RecordingStore
) -> None:
    recording.left = 2

    await system.start(lambda: Writer(recording), name="writer")
    await settle()

    assert recording.calls == ["clear"] * 2


async def test_a_purge_of_nothing_is_answered_at_once(
    writer: Ref, recording: RecordingStore
) -> None:
    await ask_all(writer, AwaitPurge(), Delete(NOBODY), AwaitPurge())

    assert await everything(recording) == ([], [])


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
