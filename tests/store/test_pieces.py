"""What is large is written and deleted in pieces, and nobody ever sees one of them."""

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
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Leftovers, Store, Write
from supervisor.store.sqlite import pieces as sql
from supervisor.store.sqlite.store import SqliteStore, open_sqlite
from supervisor.store.writer import Bring, Cleared, Commit, Delete, Retry, Tidy, Writer, pieces
from supervisor.store.writer.health import Health
from supervisor.store.writer.held import Held
from tests.store.cast import NOBODY, ONE, TWO, birth, everything, more, numbers_of, receipt

COUNT = 25
INPUT = InputId("in_1")
LARGE = 7  # a piece has so many records


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((pieces, "PIECE_RECORDS"), (sql, "_PIECE_RECORDS")):
        monkeypatch.setattr(module, name, LARGE)


def text(session_id: SessionId, seq: int) -> Record:
    body = {"text": f"word{seq} common", "part": None}
    return Record(session_id, seq, 2.0, None, "user_text", body)


def large(session_id: SessionId = ONE, count: int = COUNT) -> Write:
    """The first write of a session, with so many records."""
    made = birth(session_id)
    said = (text(session_id, seq) for seq in range(2, count))
    body = {"input_id": INPUT, "text": "x", "when_busy": "queue"}
    accepted = Record(session_id, count, 2.0, None, "input_accepted", body)
    return attrs.evolve(made, records=(*made.records, *said, accepted), kept=receipt(session_id))


async def bring(store: Store, write: Write, first: int = 0, last: int | None = None) -> None:
    await store.bring(write.session_id, write.records[first:last])


def rest_of(write: Write, first: int) -> Write:
    return attrs.evolve(write, records=write.records[first:])


async def sees(store: Store, session_id: SessionId = ONE) -> list[object]:
    """All that anybody can find out about it."""
    seen: list[object] = [
        *[one for one in await store.at_start() if session_id in str(one)],
        *[one async for one in store.rows() if one.row.id == session_id],
        *await store.records(session_id),
        *await store.raw_records(session_id),
        *await store.records_of_input(session_id, INPUT),
        *[one for _, one in await store.all_records() if one.session_id == session_id],
        *[one for one in await store.records_of(["user_text"]) if one.session_id == session_id],
        *[one for one in await store.search("common") if one.session_id == session_id],
        *[name for name in await store.sizes() if name == session_id],
    ]
    found = (await store.read(session_id), await store.kept(session_id, "key"))
    return seen + [one for one in found if one is not None]


def left_in(path: Path, session_id: SessionId = ONE) -> list[str]:
    """The tables that have it."""
    with closing(sqlite3.connect(path)) as connection:
        tables = ("sessions", "records", "kept", "snapshots", "unfinished")
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608
    return [name for name, found in rows.items() if session_id in repr(found)]


# Putting in ---------------------------------------------------------------------------------


async def test_nobody_sees_what_was_brought_before_it_is_whole(store: Store) -> None:
    write = large()
    await bring(store, write, 0, 10)
    await bring(store, write, 10, 20)
    assert await sees(store) == []

    assert await store.commit([rest_of(write, 20)]) == [None]

    assert await store.records(ONE) == list(write.records)
    stored = await store.read(ONE)
    assert stored is not None
    assert (stored.row, stored.last_seq) == (write.row, COUNT)
    assert len(await store.search("common", limit=100)) == COUNT - 2
    assert await store.kept(ONE, "key") == write.kept


async def test_who_reads_all_records_passes_nobody_who_is_being_brought(store: Store) -> None:
    write = large()
    await store.commit([birth(TWO)])
    await bring(store, write, 0, 20)
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


async def test_who_is_there_cannot_be_brought_nor_anybody_with_a_gap(store: Store) -> None:
    await store.commit([birth(TWO)])
    write = large()

    with pytest.raises(NotStorable):
        await store.bring(TWO, [text(TWO, 2)])
    with pytest.raises(NotStorable):
        await bring(store, write, 1, 5)
    await bring(store, write, 0, 5)
    with pytest.raises(NotStorable):
        await bring(store, write, 6, 8)
    [refusal] = await store.commit([rest_of(write, 6)])

    assert isinstance(refusal, NotStorable)
    assert await sees(store) == []
    assert await store.commit([rest_of(write, 5)]) == [None]


async def test_what_was_brought_can_be_deleted(store: Store) -> None:
    await bring(store, large(), 0, 20)

    await store.delete(ONE)
    while await store.clear_away():
        pass

    assert await sees(store) == []
    assert await store.commit([large()]) == [None]
    assert await numbers_of(store) == list(range(1, COUNT + 1))


async def test_what_another_writer_had_begun_to_bring_goes(store: Store) -> None:
    await bring(store, large(), 0, 20)

    await store.leftovers()
    while await store.clear_away():
        pass

    assert await store.commit([large()]) == [None]
    assert await numbers_of(store) == list(range(1, COUNT + 1))


async def test_what_others_keep_under_its_name_goes_with_who_never_arrived(store: Store) -> None:
    write = large()
    await bring(store, write, last=5)
    await store.commit([attrs.evolve(birth(TWO), kept=receipt(ONE))])

    await store.leftovers()
    while await store.clear_away():
        pass

    assert await store.kept(ONE, "key") is None


# Taking out ---------------------------------------------------------------------------------


async def test_nobody_sees_what_is_left_of_a_deletion(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(), birth(TWO)])
        await store.delete(ONE)

        pauses = 0
        assert left_in(store.path) == ["records", "unfinished"]
        while await store.clear_away():
            pauses += 1
            assert await sees(store) == []
        assert left_in(store.path) == []
        assert pauses == 2
        assert await numbers_of(store, TWO) == [1]


async def test_who_comes_again_while_it_is_cleared_away_is_new(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large()])
        await store.delete(ONE)

        assert await store.commit([birth(ONE)]) == [None]

        assert await numbers_of(store) == [1]
        assert await store.search("common") == []
        assert not await store.clear_away()


async def test_of_what_is_small_nothing_is_left_at_once(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(count=LARGE)])
        await store.delete(ONE)

        assert left_in(store.path) == []


async def test_a_deletion_in_a_write_is_seen_with_it(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        await store.commit([large(), birth(TWO)])
        write = attrs.evolve(more(TWO, 2), removes=ONE)

        assert await store.commit([write]) == [None]

        assert await sees(store) == []
        assert left_in(store.path) == ["records", "unfinished"]


async def test_the_index_is_tidied_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_PIECE_PAGES", 1)
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
        while await store.tidy():
            tidied += 1

        assert tidied > 1
        assert b"zebra" not in index_of(store.path)
        assert len(await store.search("common", limit=100)) == COUNT - 2


def index_of(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        return b"".join(block for (block,) in connection.execute("SELECT block FROM words_data"))


# Killed in between --------------------------------------------------------------------------


def killed(store: SqliteStore, folder: Path) -> Path:
    """What whoever comes after a kill finds."""
    folder.mkdir()
    for one in store.path.parent.glob("state.db*"):
        shutil.copy(one, folder)
    return folder / store.path.name


async def reopened(path: Path) -> tuple[list[Any], list[str]]:
    """What the next supervisor's store has, once its writer had time."""
    async with open_sqlite(path) as store, open_actors() as system:
        writer = await system.start(lambda: Writer(store), name="writer")
        seen = await sees(store)
        await writer.ask(Cleared())
        assert await sees(store) == seen
        assert seen == [] or await numbers_of(store) == list(range(1, COUNT + 1))
        left = left_in(path)
        await writer.stop()
        return seen, left


async def test_a_death_between_pieces_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "state.db") as store:
        found: list[tuple[list[Any], list[str]]] = []

        async def die() -> None:
            found.append(await reopened(killed(store, tmp_path / str(len(found)))))

        write = large()
        for first in range(0, 20, 5):
            await bring(store, write, first, first + 5)
            await die()
        await store.commit([rest_of(write, 20)])
        await die()
        await store.delete(ONE)
        await die()
        while await store.clear_away():
            await die()

    assert [bool(seen) for seen, _ in found] == [False] * 4 + [True] + [False] * 3
    assert [left for seen, left in found if not seen] == [[]] * 7


# The writer ---------------------------------------------------------------------------------


class Diary(MemoryStore):
    """Says what it was asked, and clears away in three goes."""

    def __init__(self) -> None:
        super().__init__()
        self.deeds: list[str] = []
        self.is_ill = False
        self.left = 0
        # What happens while it does a piece.
        self.meanwhile: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    def _note(self, deed: str) -> None:
        if self.is_ill:
            raise StoreDegraded("the disk is full", hint="free some space")
        self.deeds.append(deed)

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self._note(f"commit {' '.join(write.session_id for write in writes)}")
        return await super().commit(writes)

    async def bring(self, session_id: SessionId, records: Sequence[Record]) -> None:
        self._note(f"bring {len(records)}")
        await self.meanwhile()
        await super().bring(session_id, records)

    async def delete(self, session_id: SessionId) -> None:
        self._note(f"delete {session_id}")
        self.left = 3
        await super().delete(session_id)

    async def clear_away(self) -> bool:
        self._note("clear")
        await self.meanwhile()
        self.left = max(0, self.left - 1)
        await super().clear_away()
        return self.left > 0

    async def probe(self) -> None:
        self._note("probe")
        await super().probe()

    async def tidy(self) -> bool:
        self._note("tidy")
        await self.meanwhile()
        return self.deeds.count("tidy") % 3 != 0

    async def leftovers(self) -> Leftovers:
        await super().leftovers()
        return Leftovers(unfinished=self.left > 0, untidy=False)


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
async def system() -> AsyncIterator[Group]:
    async with open_actors() as root:
        yield root


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
async def writer(system: Group, diary: Diary, health: Health) -> Ref:
    return await system.start(lambda: Writer(diary, health), name="writer", restart="permanent")


async def in_time(writer: Ref, *questions: Ask[Any]) -> list[Any]:
    """Ask all of it at once, and wait for all answers."""
    answers: list[Any] = [None] * len(questions)

    async def ask(number: int, question: Ask[Any]) -> None:
        answers[number] = await writer.ask(question, timeout_seconds=math.inf)

    async with trio.open_nursery() as nursery:
        for number, question in enumerate(questions):
            nursery.start_soon(ask, number, question)
            await settle()
    return answers


async def beside(diary: Diary, writer: Ref, question: Ask[Any]) -> Any:  # noqa: ANN401
    """What it is answered, while somebody else wants to write in the middle of each piece."""
    names = iter(SessionId(f"s_{number}") for number in range(100))

    async def write() -> None:
        await writer.ask(Commit(birth(next(names))), timeout_seconds=math.inf)

    async with trio.open_nursery() as nursery:

        async def want() -> None:
            nursery.start_soon(write)
            await settle()

        diary.meanwhile = want
        return await writer.ask(question, timeout_seconds=math.inf)


async def test_others_are_written_between_the_pieces_of_one_that_is_large(
    writer: Ref, diary: Diary
) -> None:
    assert await beside(diary, writer, Bring(large())) is None

    assert diary.deeds == [
        *("bring 7", "commit s_0", "bring 7", "commit s_1", "bring 7", "commit s_2"),
        f"commit {ONE}",
    ]
    assert await numbers_of(diary) == list(range(1, COUNT + 1))


async def test_others_are_written_while_somebody_is_cleared_away(writer: Ref, diary: Diary) -> None:
    await writer.ask(Commit(large()))
    diary.deeds.clear()

    await beside(diary, writer, Delete(ONE))

    assert diary.deeds[:6] == [
        *(f"delete {ONE}", "clear", "commit s_0", "clear", "commit s_1", "clear"),
    ]


async def test_a_deletion_by_another_write_is_cleared_away_though_nobody_asks(
    writer: Ref, diary: Diary
) -> None:
    await writer.ask(Commit(large()))
    await writer.ask(Commit(attrs.evolve(birth(TWO), removes=ONE)))
    await settle()

    assert "clear" in diary.deeds


async def test_tidying_is_done_in_pieces(writer: Ref, diary: Diary) -> None:
    writer.tell(Tidy())
    await settle()

    assert diary.deeds == ["tidy"] * 3


async def test_what_is_not_storable_is_refused_and_goes_again(writer: Ref, diary: Diary) -> None:
    bad = Record(ONE, COUNT + 1, math.nan, None, "plan", {})
    write = attrs.evolve(large(), records=(*large().records, bad))
    refusal = await writer.ask(Bring(write), timeout_seconds=math.inf)
    assert isinstance(refusal, NotStorable)

    others = (text(ONE, seq) for seq in range(11, 30))
    early = attrs.evolve(write, records=(*write.records[:9], attrs.evolve(bad, seq=10), *others))
    with pytest.raises(NotStorable):
        await writer.ask(Bring(early), timeout_seconds=math.inf)

    await writer.ask(Cleared())
    assert await sees(diary) == []
    assert await writer.ask(Bring(large())) is None  # and it can come again


async def test_what_falls_ill_between_two_pieces_goes_on_when_it_is_well(
    writer: Ref, diary: Diary, health: Health
) -> None:
    async with trio.open_nursery() as nursery:
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await writer.ask(Bring(large()), timeout_seconds=math.inf))

        nursery.start_soon(ask)
        while "bring 7" not in diary.deeds:
            await trio.lowlevel.checkpoint()
        diary.is_ill = True
        await settle()
        assert health.is_degraded
        held = await writer.ask(Commit(birth(TWO)))
        assert isinstance(held, Held)
        diary.is_ill = False
        await writer.ask(Retry(), timeout_seconds=math.inf)

    assert answers == [None]
    assert await numbers_of(diary) == list(range(1, COUNT + 1))
    assert await numbers_of(diary, TWO) == [1]


async def test_a_writer_goes_on_clearing_where_the_last_one_was(
    system: Group, diary: Diary
) -> None:
    diary.left = 2

    await system.start(lambda: Writer(diary), name="writer")
    await settle()

    assert diary.deeds == ["clear"] * 2


async def test_nobody_waits_for_what_is_not_there(writer: Ref, diary: Diary) -> None:
    await in_time(writer, Cleared(), Delete(NOBODY), Cleared())

    assert await everything(diary) == ([], [])


@pytest.mark.parametrize("when", ["clear", "tidy"])
async def test_a_writer_that_stops_between_two_pieces_does_so_in_peace(
    system: Group, diary: Diary, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    diary.left = 3
    writer = await system.start(lambda: Writer(diary), name="writer")
    writer.tell(Tidy())

    async def stop() -> None:
        if diary.deeds[-1] == when:
            writer.stop_nowait()

    diary.meanwhile = stop
    await writer.wait_stopped()

    assert caplog.records == []
