"""Several lives of one program on one file: all but the last end by the death of the store.

Rule 1: the first life is an attack as it is. It does not know that it plays on a file, nor that it
        will not come to its end.
Rule 2: one referee judges all lives. Whoever was told something by a dead supervisor was not.
Rule 3: time goes on between lives, and now and then it passes.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import pytest
import trio

import supervisor
import supervisor.runtime
from supervisor import PythonAgent, Receipt, Record, Settings, Supervisor
from supervisor.core.tree.member import Member
from supervisor.sessions.time import clock
from supervisor.store.codec import encode
from supervisor.store.filters import EVERYTHING
from supervisor.store.sqlite import reading
from supervisor.store.sqlite.files import open_reader
from tests.simulation.sessions import stage as sessions
from tests.simulation.sessions.referee import Book, Referee
from tests.simulation.sessions.stage import Stage
from tests.simulation.trees import stage as trees
from tests.simulation.trees.referee import TreeReferee
from tests.simulation.trees.stage import Trees

from .store import MortalStore

Attack = Callable[[], Awaitable[None]]

# Where a file costs nothing, if there is such a place.
_IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only a folder of our own in it is used
_EPOCH: Final = 1_000_000_000.0


class _Deaf:
    """What callers hear from one who is dead is not held against anybody."""

    is_dead = False
    deaths = 0
    store: MortalStore

    def begin_again(self) -> None:
        """Another life begins."""
        self.deaths += 1

    def read_the_file(self) -> None:
        """Whoever lives now knows of the lives before what is in the file, and no more."""

    def check(self, promise: bool, words: str) -> None:  # noqa: FBT001 - as in assert
        # A read that somebody outside has begun is a task here, where threads are tasks.
        if words.endswith("are left after leaving") and self.store.is_read:
            return
        if not self.is_dead:
            super().check(promise, words)  # type: ignore[misc] # a Referee's

    def was_refused(self, text: str) -> None:
        if not self.is_dead:
            super().was_refused(text)  # type: ignore[misc]

    def accepted(self, receipt: Receipt, text: str, key: str | None) -> None:
        if not self.is_dead:
            super().accepted(receipt, text, key)  # type: ignore[misc]


class DeafReferee(_Deaf, Referee):
    """Of sessions."""


class DeafTreeReferee(_Deaf, TreeReferee):
    """Of trees."""

    def read_the_file(self) -> None:
        """In each life siblings are as old as they are, also those who had come back in another."""
        if self.pages:
            self.doors = None  # hooks are code, and that was somebody else's
        for page in self.pages.values():
            ordered = [one for one in self.pages if one in page.children]
            page.children = {one: page.children[one] for one in ordered}

    def heard(self, session_id: str, kind: str, child: str) -> None:
        """An agent that read its news and died before that was written reads it again."""

    def _judge_news(self, book: Book, record: Record) -> None:
        """What was done before a death and not told is told with the end, which says both."""
        child = self.pages.get(record.body["child"])
        if child is not None and record.kind == "child_ended" and self.deaths:
            says_both = record.body["reason"] is not None and record.body["outcome"] is not None
            at = len(child.told)
            if says_both and child.became[at : at + 2] == ["done", "over"]:
                del child.became[at]
        super()._judge_news(book, record)

    def _judge_member(self, member: Member) -> None:
        """What is counted for one who is gone is nobody's any more."""
        page = self.pages.get(member.id)
        if page is None or not page.is_gone:
            super()._judge_member(member)


class SlowTrees(Trees):
    """Reading a file takes a while, in which somebody may move after all."""

    async def _compare_what_is_shown(self) -> None:
        broken = [*self.referee.broken]
        before = sum(len(book.records) for book in self.referee.books.values())
        await super()._compare_what_is_shown()
        if before != sum(len(book.records) for book in self.referee.books.values()):
            self.referee.broken[:] = broken


@attrs.define(eq=False)
class World:
    """One file, and who lives on it."""

    path: Path
    # When to die, the first life first; the last one does not.
    deaths: list[int | None]
    referee: Any = None
    agents: list[PythonAgent] = attrs.Factory(list)
    settings: Settings | None = None
    store: MortalStore | None = None
    life: trio.CancelScope = attrs.Factory(trio.CancelScope)
    away_seconds: float = 0.0
    was_cut_short: bool = False

    def make_store(self, referee: Any) -> MortalStore:  # noqa: ANN401 - a deaf one
        self.referee = referee
        referee.read_the_file()
        dies_after = self.deaths.pop(0)
        self.store = MortalStore(self.path, referee, dies_after=dies_after, on_death=self.die)
        referee.store = self.store
        return self.store

    def die(self) -> None:
        self.was_cut_short = True
        self.referee.is_dead = True
        self.referee.begin_again()
        self.life.cancel()

    def open(
        self,
        real: Callable[..., AbstractAsyncContextManager[Supervisor]],
        agents: list[PythonAgent],
        settings: Settings | None,
    ) -> AbstractAsyncContextManager[Supervisor]:
        self.agents, self.settings = agents, settings
        return real(agents=agents, settings=settings)

    async def live(self, attack: Attack) -> bool:
        """Whether it came to its end."""
        self.was_cut_short = False
        self.life = trio.CancelScope()
        with self.life:
            await attack()
        assert self.store is not None
        self.store.close_now()
        self.referee.is_dead = False
        if self.was_cut_short:
            self.referee.raise_broken()
            self.referee.at_work.clear()
        self.compare()
        return not self.was_cut_short

    def compare(self) -> None:
        """What the file has is what the referee was told, to the last byte."""
        with closing(open_reader(self.path)) as connection:
            stored, _ = reading.page_of_rows(connection, 0, EVERYTHING)
            ids = {one.row.id for one in stored}
            books = {one: book for one, book in self.referee.books.items() if book.records}
            assert ids == books.keys(), f"the file has {ids}, there were {books.keys()}"
            for one in stored:
                book = books[one.row.id]
                records = reading.records(connection, one.row.id, 0, None, None)
                assert [*map(encode, records)] == [*map(encode, book.records)]
                assert one.row == book.row, f"{one.row.id}: its row in the file is another one"
                assert one.epoch == book.epoch, f"{one.row.id}: epoch {one.epoch}, {book.epoch}"

    # The next lives -----------------------------------------------------------------------

    @asynccontextmanager
    async def again(self) -> AsyncIterator[Supervisor]:
        """A supervisor that finds what the last one has left."""
        store = self.make_store(self.referee)
        now = _EPOCH + trio.current_time() + self.away_seconds
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
            patch.setattr(clock, "_VIRTUAL_EPOCH", now)
            async with supervisor.open(agents=self.agents, settings=self.settings) as sup:
                yield sup

    async def recover_sessions(self) -> None:
        """Go on with what was left of an attack on sessions."""
        async with self.again() as sup:
            stage = self._stage(sup)
            for info in (await sup.list()).items:
                if not info.archived and random.random() < 0.5:
                    await stage.send(sup.session(info.id), f"again {info.id} say tool")
            await stage.look_when_quiet()
        self.referee.close()

    async def recover_trees(self) -> None:
        """Go on with what was left of an attack on trees, until all is quiet."""
        async with self.again() as sup:
            self.referee.look_into(sup._house)
            stage = self._stage(sup)
            stood = SlowTrees(stage, self.referee, stage.cast, sup)  # type: ignore[arg-type]
            if self.deaths or random.random() < 0.5:
                await stood.go_on(3, "spawn", "stop", "resume", "say", "delete", "interrupt")
            await stood.come_to_rest()
        self.referee.close()

    def _stage(self, sup: Supervisor) -> Stage:
        cast: Any = self.agents[0].function.__self__  # type: ignore[attr-defined]
        # No text is said twice, whatever was said in the lives before.
        numbers = count(1_000 * (1 + self.referee.deaths))
        return Stage(self.referee, self.store, cast, sup, numbers)  # type: ignore[arg-type]


@contextmanager
def _played_on(world: World) -> Iterator[None]:
    real = supervisor.open

    def open_here(
        *, agents: list[PythonAgent], settings: Settings | None = None
    ) -> AbstractAsyncContextManager[Supervisor]:
        return world.open(real, agents, settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "JudgedStore", world.make_store)
        patch.setattr(sessions, "Referee", DeafReferee)
        patch.setattr(trees, "TreeReferee", DeafTreeReferee)
        patch.setattr(trees, "Trees", SlowTrees)
        patch.setattr(supervisor, "open", open_here)
        patch.setattr(clock, "_VIRTUAL_EPOCH", _EPOCH)
        yield


async def live_again_and_again(attack: Attack, most_writes: int) -> None:
    """An attack whose store dies in its midst, and lives after it; the last one is in peace."""
    lives = random.choice((1, 1, 2))
    deaths = [random.randrange(most_writes) for _ in range(lives)]
    in_memory = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with TemporaryDirectory(dir=in_memory) as folder:
        world = World(Path(folder) / "state.db", [*deaths, None])
        with _played_on(world):
            if await world.live(attack):
                world.deaths = [None]
            go_on = world.recover_sessions
            if isinstance(world.referee, TreeReferee):
                go_on = world.recover_trees
            while world.deaths:
                world.away_seconds = random.choice((0.0, 0.0, 2.0, 100.0))
                await world.live(go_on)
