"""The memory store and the SQLite store agree on every answer and on everything readable.

For any sequence of operations, also if the SQLite store is killed between any two of them: a copy
of its files, taken while it is open, is what a killed process leaves.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, TypeVar
from unittest.mock import patch

import attrs
import hypothesis
import pytest
import trio
from hypothesis import strategies as st

from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId, SessionKey, TurnId
from supervisor.core.limits import Lineage
from supervisor.core.match import Place
from supervisor.core.records import Record
from supervisor.core.state import Phase, SessionState
from supervisor.core.totals import Totals, figures_of, total
from supervisor.store import running_totals
from supervisor.store.list_filter import Filter
from supervisor.store.memory import MemoryStore
from supervisor.store.port import ProcessEntry, Store, StoredReply, Write
from supervisor.store.sqlite.store import SqliteStore
from supervisor.store.threads import StoreThread

T = TypeVar("T")
NAMES: Final = tuple(SessionId(name) for name in ("s_one", "s_two", "s_three"))
SCOPES: Final = ("s_one", "s_two/spawn", "create")
KINDS: Final = ("turn_started", "user_text", "agent_text", "plan", "child_ended", "child_started")
TEXTS: Final = (
    "red green",
    "Grün, blue!",
    "foo_bar x\0y",
    "мой Straße 안녕 がん",
    "",
    "😀 e\u0301",
)
SEARCHES: Final = ("red", "GRUN", "foo", "foo_bar", "мой straße", "안녕", "y", "がん", "é", '"*')
PLACES: Final[tuple[tuple[str, Place], ...]] = (
    ("s_one", "whole"),
    ("turn", "beginning"),
    ("_1", "end"),
    ("e", "end"),
)
NOBODY: Final = SessionId("s_nobody")
EVERY: Final = 4  # records between snapshots

# Operations -------------------------------------------------------------------------------


@attrs.frozen
class Part:
    """A write in the abstract; its numbers follow the stored ones, plus `gap`."""

    session: SessionId
    kinds: tuple[str, ...]
    text: str
    title: str | None  # None: without a row
    kept: str | None  # the scope of a stored reply
    gap: int
    epochs: int  # distance to the right epoch
    removes: SessionId | None
    poison: bool


@attrs.frozen
class Commit:
    writes: tuple[tuple[Part, ...], ...]  # each with its linked writes


@attrs.frozen
class Claim:
    sessions: tuple[SessionId, ...]


@attrs.frozen
class Delete:
    session: SessionId


@attrs.frozen
class InsertChunk:
    session: SessionId
    kinds: tuple[str, ...]
    text: str
    gap: int


@attrs.frozen
class NewWriter:
    """A new writer takes over from one that is gone."""


@attrs.frozen
class Note:
    process: ProcessEntry
    forget: bool


@attrs.frozen
class Crash:
    pass


Operation: TypeAlias = Commit | Claim | Delete | InsertChunk | NewWriter | Note | Crash

names = st.sampled_from(NAMES)
rarely = st.sampled_from([False] * 9 + [True])
parts = st.builds(
    Part,
    session=names,
    kinds=st.lists(st.sampled_from(KINDS), max_size=4).map(tuple),
    text=st.sampled_from(TEXTS),
    title=st.none() | st.sampled_from(["a", "b", "é\0"]),
    kept=st.none() | st.sampled_from(SCOPES),
    gap=st.sampled_from([0] * 9 + [1, -1]),
    epochs=st.sampled_from([0] * 9 + [1, -1]),
    removes=st.sampled_from([None] * 6 + [*NAMES]),
    poison=rarely,
)
# Linked writes are of different sessions: two of one session never occur in one write.
together = st.lists(parts, min_size=1, max_size=3, unique_by=lambda part: part.session).map(tuple)
processes = st.builds(
    ProcessEntry,
    session_id=names,
    pid=st.integers(1, 2),
    start_time=st.just(5),
    boot_id=st.just("b"),
)
any_operation: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Commit, st.lists(together, max_size=5).map(tuple)),
    st.builds(Commit, st.lists(together, max_size=5).map(tuple)),
    st.builds(Claim, st.lists(names, max_size=3).map(tuple)),
    st.builds(Delete, names),
    st.builds(
        InsertChunk,
        names,
        st.lists(st.sampled_from(KINDS), min_size=1, max_size=4).map(tuple),
        st.sampled_from(TEXTS),
        st.sampled_from([0] * 5 + [1]),
    ),
    st.just(NewWriter()),
    st.builds(Note, processes, st.booleans()),
    st.just(Crash()),
)
operation_lists = st.lists(any_operation, max_size=12)


class WriteBuilder:
    """A builder of concrete writes from abstract ones and the stored state."""

    def __init__(self, there: dict[SessionId, tuple[int, int]]) -> None:
        self._existing = there  # epoch and last number of each existing session

    def write(self, parts: Sequence[Part]) -> Write:
        [first, *rest] = parts
        also = self.write(rest) if rest else None
        epoch, last = self._existing.get(first.session, (0, 0))
        records = tuple(
            self._record(first, kind, seq)
            for seq, kind in enumerate(first.kinds, last + 1 + first.gap)
        )
        if not first.gap and not first.epochs and not first.poison:
            self._existing[first.session] = (epoch, last + len(records))
        return Write(
            first.session,
            epoch + first.epochs,
            records,
            None if first.title is None else _row(first.session, first.title),
            None if first.kept is None else StoredReply(first.kept, "key", first.text, {"n": last}),
            also,
            # A write never deletes its own session.
            first.removes if first.removes not in {part.session for part in parts} else None,
        )

    @staticmethod
    def _record(part: Part, kind: Any, seq: int) -> Record:  # noqa: ANN401 - one of KINDS
        body = {"text": part.text, "bad": "\ud800"} if part.poison else {"text": part.text}
        turn = TurnId(f"turn_{seq % 2}") if seq % 3 else None
        return Record(part.session, seq, float(seq), turn, kind, body)


def _row(session_id: SessionId, title: str) -> SessionState:
    phase = Phase.IDLE if title == "a" else Phase.STOPPED
    key = None if session_id == NAMES[1] else SessionKey("echo", "there", session_id)
    above = NAMES[:1]  # the first session is the ancestor of the last
    lineage = Lineage(above[0], above[0], 1, above=above) if session_id == NAMES[2] else Lineage()
    return SessionState(
        id=session_id,
        agent_name="echo",
        name=title,  # which another session of the same scope may hold
        title=title,
        phase=phase,
        tags=(title,),
        key=key,
        archived=title == "é\0",
        lineage=lineage,
    )


# Views ------------------------------------------------------------------------------------


async def visible_data(store: Store) -> dict[str, Any]:
    """Return everything that a reader can query."""
    seen: dict[str, Any] = {
        "rows": [one async for one in store.rows()],
        "start": await store.startup_rows(),
        "idle": [one async for one in store.rows(after=1, matching=Filter(phase=Phase.IDLE))],
        "tag": [one.number async for one in store.rows(matching=Filter(tag="é\0", text="É"))],
        "all": await store.all_records(),
        "some": await store.all_records(after=2, limit=2),
        "last": await store.last_position(),
        "totals": await true_totals(store),
        "kinds": await store.records_of_kinds(["child_ended", "child_started"]),
        "kept": [await store.stored_reply(scope, "key") for scope in SCOPES],
        "processes": sorted(await store.processes(), key=repr),
        "found": {words: await store.search(words, limit=5) for words in SEARCHES},
        "pages": await store.search("red", session_id=NAMES[0], before=4, limit=1),
        "named": [await store.sessions_named(name) for name in ("a", "b", "é\0", "A")],
        "below": await store.sessions_named("a", root=NAMES[0], limit=1),
        "ids": [
            await store.find_ids(kind, part, place, session_id=owner, limit=2)
            for kind in ("session", "turn", "call", "request")
            for part, place in PLACES
            for owner in (None, NAMES[0])
        ],
        "sizes": {name for name, size in (await store.sizes()).items() if size},
    }
    for name in NAMES:
        seen[name] = (
            await store.read(name),
            await store.records(name, after=1, limit=3),
            await store.records(name, turn=TurnId("turn_1"), limit=2),
            [attrs.evolve(one, body=None) for one in await store.raw_records(name)],
            [await store.snapshot(name, at=at) for at in (0, 4, 7, 1_000)],
        )
    return seen


async def true_totals(store: Store) -> Totals:
    """Return the totals, which must be those of the rows."""
    totals = await store.totals()
    assert totals == total([figures_of(one.row) async for one in store.rows()])
    return totals


def told(answers: Sequence[SupervisorError | None]) -> list[Any]:
    return [None if one is None else type(one) for one in answers]


class InlineSqliteStore(SqliteStore):
    """The SQLite store without its threads, which would dominate the run time."""

    async def _run_in_thread(self, _: StoreThread, work: Callable[[], T], *, then: str = "") -> T:
        await trio.lowlevel.checkpoint()
        return work()


# Both stores ------------------------------------------------------------------------------


class Pair:
    """The two stores, given the same operations."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives = 0
        self.plain: Store = MemoryStore(snapshot_every=EVERY)
        # Number of inserted records of each incomplete session.
        self._brought: dict[SessionId, int] = {}
        self.file = InlineSqliteStore(self._path, snapshot_every=EVERY)

    @property
    def _path(self) -> Path:
        return self._folder / str(self._lives) / "state.db"

    async def open(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        await self.file.open()

    async def do(self, operation: Operation) -> None:
        if isinstance(operation, Crash):
            return await self._crash()
        if isinstance(operation, Commit):
            stored = [one async for one in self.plain.rows()]
            there = {one.row.id: (one.epoch, one.last_seq) for one in stored}
            builder = WriteBuilder(
                {name: (0, count) for name, count in self._brought.items()} | there
            )
            writes = [builder.write(parts) for parts in operation.writes]
            assert told(await self.plain.commit(writes)) == told(await self.file.commit(writes))
            for name in self._brought.keys() & {one.row.id async for one in self.plain.rows()}:
                del self._brought[name]
            for write in writes:
                self._brought.pop(write.deletes or NOBODY, None)
        elif isinstance(operation, InsertChunk):
            await self._insert_chunk(operation)
        elif isinstance(operation, Claim):
            assert await self.plain.claim(operation.sessions) == await self.file.claim(
                operation.sessions
            )
        else:
            if isinstance(operation, Delete):
                self._brought.pop(operation.session, None)
            elif isinstance(operation, NewWriter):
                self._brought.clear()
            for store in (self.plain, self.file):
                await _tell(store, operation)
        return None

    async def _insert_chunk(self, operation: InsertChunk) -> None:
        """Insert the next records of a new session; both stores refuse an existing one."""
        last = self._brought.get(operation.session, 0)
        part = Part(
            operation.session, operation.kinds, operation.text, None, None, 0, 0, None, poison=False
        )
        records = tuple(
            WriteBuilder._record(part, kind, seq)
            for seq, kind in enumerate(operation.kinds, last + 1 + operation.gap)
        )
        answers: list[type | None] = []
        for store in (self.plain, self.file):
            try:
                await store.insert_chunk(operation.session, records)
                answers.append(None)
            except SupervisorError as error:
                answers.append(type(error))
        assert answers[0] == answers[1]
        if answers[0] is None:
            self._brought[operation.session] = last + len(records)

    async def _crash(self) -> None:
        """Reopen the SQLite store on a copy of its files as they are now."""
        before, dead = self._path.parent, self.file
        self._lives += 1
        shutil.copytree(before, self._path.parent)
        self.file = InlineSqliteStore(self._path, snapshot_every=EVERY)
        await dead.close()
        await self.file.open()


async def _tell(store: Store, operation: Delete | NewWriter | Note) -> None:
    if isinstance(operation, NewWriter):
        await store.find_unfinished()
        while await store.purge_deleted() or await store.optimize_index():
            pass
    elif isinstance(operation, Delete):
        await store.delete(operation.session)
    elif operation.forget:
        await store.forget_process(operation.process)
    else:
        await store.record_process(operation.process)


async def run_operations(operations: Sequence[Operation]) -> None:
    # Without the check of other rows, which would correct totals that miss a write.
    with TemporaryDirectory() as folder, patch.object(running_totals, "CHECKED_ROWS", 0):
        pair = Pair(Path(folder))
        await pair.open()
        try:
            for operation in operations:
                await pair.do(operation)
                assert await visible_data(pair.plain) == await visible_data(pair.file)
            await pair.do(Crash())
            assert await visible_data(pair.plain) == await visible_data(pair.file)
        finally:
            await pair.file.close()


# Without `explain`, which repeats a failing run some hundred times.
SOAK_PIECES: Final = 4
PHASES: Final = tuple(phase for phase in hypothesis.Phase if phase.name != "explain")


@hypothesis.settings(max_examples=40, phases=PHASES)
@hypothesis.given(operation_lists)
def test_both_stores_agree_on_every_result(operations: list[Operation]) -> None:
    trio.run(run_operations, operations)


def test_one_write_gives_a_name_once() -> None:
    parts = [
        Part(
            session=SessionId(name),
            kinds=(),
            text="red",
            title="a",
            kept=None,
            gap=0,
            epochs=0,
            removes=None,
            poison=False,
        )
        for name in ("s_one", "s_two")
    ]
    trio.run(run_operations, [Commit(writes=(tuple(parts),))])


# In pieces: 3,000 examples in all.
@pytest.mark.soak(per_piece=2)
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
def test_both_stores_agree_on_every_result_in_a_long_run(
    piece: int, record_property: Callable[[str, object], None]
) -> None:
    examples = 3_000 // SOAK_PIECES
    record_property("covered", f"{examples} examples")

    @hypothesis.settings(max_examples=examples, phases=PHASES)
    @hypothesis.given(st.lists(any_operation, max_size=40))
    def agree(operations: list[Operation]) -> None:
        trio.run(run_operations, operations)

    agree()
