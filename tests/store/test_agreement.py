"""Two stores, one story: memory and SQLite agree on every answer and everything that can be read.

Whatever is asked of both, in whatever order, and though the one in the file is killed between any
two steps: the copy of its files, taken while it is open, is what a dead process leaves.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, TypeVar

import attrs
import hypothesis
import pytest
import trio
from hypothesis import strategies as st

from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId, SessionKey, TurnId
from supervisor.core.records import Record
from supervisor.core.session import Lineage, Phase, Session
from supervisor.store.filters import Filter
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Kept, Process, Store, Write
from supervisor.store.sqlite.store import SqliteStore
from supervisor.store.threads import Hand

T = TypeVar("T")
NAMES: Final = tuple(SessionId(name) for name in ("s_one", "s_two", "s_three"))
SCOPES: Final = ("s_one", "s_two/spawn", "create")
KINDS: Final = ("user_text", "agent_text", "plan", "child_ended", "child_started")
TEXTS: Final = (
    "red green",
    "Grün, blue!",
    "foo_bar x\0y",
    "мой Straße 안녕 がん",
    "",
    "😀 e\u0301",
)
SEARCHES: Final = ("red", "GRUN", "foo", "foo_bar", "мой straße", "안녕", "y", "がん", "é", '"*')
NOBODY: Final = SessionId("s_nobody")
EVERY: Final = 4  # records between snapshots

# What is done -----------------------------------------------------------------------------


@attrs.frozen
class Part:
    """A write, as it is meant; its numbers are those that follow when it is made, but for `gap`."""

    session: SessionId
    kinds: tuple[str, ...]
    text: str
    title: str | None  # None is no row
    kept: str | None  # a scope
    gap: int
    epochs: int  # away from the right one
    removes: SessionId | None
    poison: bool


@attrs.frozen
class Commit:
    writes: tuple[tuple[Part, ...], ...]  # each with all that belongs to it


@attrs.frozen
class Claim:
    sessions: tuple[SessionId, ...]


@attrs.frozen
class Delete:
    session: SessionId


@attrs.frozen
class Bring:
    session: SessionId
    kinds: tuple[str, ...]
    text: str
    gap: int


@attrs.frozen
class GoOn:
    """Whoever wrote is gone, and another one goes on."""


@attrs.frozen
class Note:
    process: Process
    forget: bool


@attrs.frozen
class Crash:
    pass


Deed: TypeAlias = Commit | Claim | Delete | Bring | GoOn | Note | Crash

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
# One of a session belongs together with those of others: two of the same in one write never come.
together = st.lists(parts, min_size=1, max_size=3, unique_by=lambda part: part.session).map(tuple)
processes = st.builds(
    Process, session_id=names, pid=st.integers(1, 2), start_time=st.just(5), boot_id=st.just("b")
)
deeds: st.SearchStrategy[Deed] = st.one_of(
    st.builds(Commit, st.lists(together, max_size=5).map(tuple)),
    st.builds(Commit, st.lists(together, max_size=5).map(tuple)),
    st.builds(Claim, st.lists(names, max_size=3).map(tuple)),
    st.builds(Delete, names),
    st.builds(
        Bring,
        names,
        st.lists(st.sampled_from(KINDS), min_size=1, max_size=4).map(tuple),
        st.sampled_from(TEXTS),
        st.sampled_from([0] * 5 + [1]),
    ),
    st.just(GoOn()),
    st.builds(Note, processes, st.booleans()),
    st.just(Crash()),
)
lives = st.lists(deeds, max_size=12)


class Scribe:
    """Makes writes of what is meant, from what it has seen to be there."""

    def __init__(self, there: dict[SessionId, tuple[int, int]]) -> None:
        self._there = there  # the epoch and the last number, of those that are there

    def write(self, parts: Sequence[Part]) -> Write:
        [first, *rest] = parts
        also = self.write(rest) if rest else None
        epoch, last = self._there.get(first.session, (0, 0))
        records = tuple(
            self._record(first, kind, seq)
            for seq, kind in enumerate(first.kinds, last + 1 + first.gap)
        )
        if not first.gap and not first.epochs and not first.poison:
            self._there[first.session] = (epoch, last + len(records))
        return Write(
            first.session,
            epoch + first.epochs,
            records,
            None if first.title is None else _row(first.session, first.title),
            None if first.kept is None else Kept(first.kept, "key", first.text, {"n": last}),
            also,
            # Nobody ends whom the same write is about.
            first.removes if first.removes not in {part.session for part in parts} else None,
        )

    @staticmethod
    def _record(part: Part, kind: Any, seq: int) -> Record:  # noqa: ANN401 - one of KINDS
        body = {"text": part.text, "bad": "\ud800"} if part.poison else {"text": part.text}
        turn = TurnId(f"turn_{seq % 2}") if seq % 3 else None
        return Record(part.session, seq, float(seq), turn, kind, body)


def _row(session_id: SessionId, title: str) -> Session:
    phase = Phase.IDLE if title == "a" else Phase.STOPPED
    key = None if session_id == NAMES[1] else SessionKey("echo", "there", session_id)
    above = NAMES[:1]  # of the last of them, the first is
    lineage = Lineage(above[0], above[0], 1, above=above) if session_id == NAMES[2] else Lineage()
    return Session(
        id=session_id,
        agent_name="echo",
        title=title,
        phase=phase,
        tags=(title,),
        key=key,
        archived=title == "é\0",
        lineage=lineage,
    )


# What is seen -----------------------------------------------------------------------------


async def picture(store: Store) -> dict[str, Any]:
    """All that a reader can ask for."""
    seen: dict[str, Any] = {
        "rows": [one async for one in store.rows()],
        "start": await store.at_start(),
        "idle": [one async for one in store.rows(after=1, fitting=Filter(phase=Phase.IDLE))],
        "tag": [one.number async for one in store.rows(fitting=Filter(tag="é\0", text="É"))],
        "all": await store.all_records(),
        "some": await store.all_records(after=2, limit=2),
        "last": await store.last_position(),
        "kinds": await store.records_of(["child_ended", "child_started"]),
        "kept": [await store.kept(scope, "key") for scope in SCOPES],
        "processes": sorted(await store.processes(), key=repr),
        "found": {words: await store.search(words, limit=5) for words in SEARCHES},
        "pages": await store.search("red", session_id=NAMES[0], before=4, limit=1),
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


def told(answers: Sequence[SupervisorError | None]) -> list[Any]:
    return [None if one is None else type(one) for one in answers]


class Threadless(SqliteStore):
    """All of it but its threads, which would cost more than all the rest."""

    async def _in_thread(self, _: Hand, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()


# Both of them -----------------------------------------------------------------------------


class Pair:
    """The two stores, told the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives = 0
        self.plain: Store = MemoryStore(snapshot_every=EVERY)
        # How many records were brought of those that are not there.
        self._brought: dict[SessionId, int] = {}
        self.file = Threadless(self._path, snapshot_every=EVERY)

    @property
    def _path(self) -> Path:
        return self._folder / str(self._lives) / "state.db"

    async def open(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        await self.file.open()

    async def do(self, deed: Deed) -> None:
        if isinstance(deed, Crash):
            return await self._crash()
        if isinstance(deed, Commit):
            stored = [one async for one in self.plain.rows()]
            there = {one.row.id: (one.epoch, one.last_seq) for one in stored}
            scribe = Scribe({name: (0, count) for name, count in self._brought.items()} | there)
            writes = [scribe.write(parts) for parts in deed.writes]
            assert told(await self.plain.commit(writes)) == told(await self.file.commit(writes))
            for name in self._brought.keys() & {one.row.id async for one in self.plain.rows()}:
                del self._brought[name]
            for write in writes:
                self._brought.pop(write.removes or NOBODY, None)
        elif isinstance(deed, Bring):
            await self._bring(deed)
        elif isinstance(deed, Claim):
            assert await self.plain.claim(deed.sessions) == await self.file.claim(deed.sessions)
        else:
            if isinstance(deed, Delete):
                self._brought.pop(deed.session, None)
            elif isinstance(deed, GoOn):
                self._brought.clear()
            for store in (self.plain, self.file):
                await _tell(store, deed)
        return None

    async def _bring(self, deed: Bring) -> None:
        """The next records of one that is not there; refused by both if it is."""
        last = self._brought.get(deed.session, 0)
        part = Part(deed.session, deed.kinds, deed.text, None, None, 0, 0, None, poison=False)
        records = tuple(
            Scribe._record(part, kind, seq)
            for seq, kind in enumerate(deed.kinds, last + 1 + deed.gap)
        )
        answers: list[type | None] = []
        for store in (self.plain, self.file):
            try:
                await store.bring(deed.session, records)
                answers.append(None)
            except SupervisorError as error:
                answers.append(type(error))
        assert answers[0] == answers[1]
        if answers[0] is None:
            self._brought[deed.session] = last + len(records)

    async def _crash(self) -> None:
        """What lies on the disk now is what the next one finds."""
        before, dead = self._path.parent, self.file
        self._lives += 1
        shutil.copytree(before, self._path.parent)
        self.file = Threadless(self._path, snapshot_every=EVERY)
        await dead.close()
        await self.file.open()


async def _tell(store: Store, deed: Delete | GoOn | Note) -> None:
    if isinstance(deed, GoOn):
        await store.leftovers()
        while await store.clear_away() or await store.tidy():
            pass
    elif isinstance(deed, Delete):
        await store.delete(deed.session)
    elif deed.forget:
        await store.forget_process(deed.process)
    else:
        await store.note_process(deed.process)


async def live(life: Sequence[Deed]) -> None:
    with TemporaryDirectory() as folder:
        pair = Pair(Path(folder))
        await pair.open()
        try:
            for deed in life:
                await pair.do(deed)
                assert await picture(pair.plain) == await picture(pair.file)
            await pair.do(Crash())
            assert await picture(pair.plain) == await picture(pair.file)
        finally:
            await pair.file.close()


# Without `explain`, which runs a failing life some hundred times more.
PHASES: Final = tuple(phase for phase in hypothesis.Phase if phase.name != "explain")


@hypothesis.settings(max_examples=40, phases=PHASES)
@hypothesis.given(lives)
def test_the_stores_agree_on_everything(life: list[Deed]) -> None:
    trio.run(live, life)


@pytest.mark.soak
@hypothesis.settings(max_examples=3_000, phases=PHASES)
@hypothesis.given(st.lists(deeds, max_size=40))
def test_the_stores_agree_on_everything_for_long(life: list[Deed]) -> None:
    trio.run(live, life)
