"""A program that is killed and begun again on the same file, without a process for each life.

    async with program.life() as sup:               killed at the end of the block, in mid-flight
        ...
    async with program.life(away_seconds=60.0) as sup:
        ...                                         what the next one finds, a minute later

When it is killed, the store takes nothing more and answers nobody, for ever. What the file has by
then is what the next life finds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Record, Restart, Session, Settings, Supervisor
from supervisor.core.errors import StoreDegraded, SupervisorError
from supervisor.core.records import replay
from supervisor.sessions.time import clock
from supervisor.store.port import Write
from supervisor.store.sqlite import store as sqlite
from tests.sessions.cast import Player
from tests.sessions.lives import NEVER

Args = ParamSpec("Args")
Answer = TypeVar("Answer")
Fatal = Callable[[Record], bool]


class Killed(Exception):
    """How the first life ends; nobody else hears of it."""


class MortalStore(sqlite.SqliteStore):
    """A store that may die: at once, or when it is to keep a certain record."""

    def __init__(self, path: Path, *, snapshot_every: int = 200) -> None:
        super().__init__(path, snapshot_every=snapshot_every)
        self.dead = trio.Event()
        # What it does not live to keep.
        self.fatal: Fatal | None = None
        # How many more records it lives to keep, if it is to die.
        self.left: int | None = None
        # Says of every write that it cannot be done, if set.
        self.is_full = False

    async def _write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Args], Answer],
        *args: Args.args,
        **more: Args.kwargs,
    ) -> Answer:
        if self.dead.is_set():
            await trio.sleep_forever()
        if self.is_full:
            raise StoreDegraded("the disk is full", hint="free some space")
        return await super()._write(work, *args, **more)

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        if self.left is not None:
            return await self._commit_few(writes)
        fatal = next((n for n, one in enumerate(writes) if self._is_fatal(one)), None)
        if fatal is None:
            return await super().commit(writes)
        if fatal:
            await super().commit(writes[:fatal])
        self.dead.set()
        await trio.sleep_forever()
        raise AssertionError

    async def _commit_few(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        answers: list[SupervisorError | None] = []
        for write in writes:
            assert self.left is not None
            self.left -= len(write.records)
            if self.left < 0:
                self.dead.set()
                await trio.sleep_forever()
            answers += await super().commit([write])
        return answers

    def _is_fatal(self, write: Write) -> bool:
        records = (*write.records, *(write.also.records if write.also is not None else ()))
        return self.fatal is not None and any(self.fatal(record) for record in records)


class Program:
    """One file, and the agents that every life has."""

    def __init__(self, path: Path, *players: Player) -> None:
        self.path = path
        self.players = players
        self.store: MortalStore
        self._nursery: trio.Nursery
        self._died_at = 1_000_000_000.0
        self._dies_after_records: int | None = None

    @asynccontextmanager
    async def life(
        self,
        *,
        agents: Sequence[Any] | None = None,
        settings: Settings | None = None,
        away_seconds: float = 1.0,
        full: bool = False,
    ) -> AsyncIterator[Supervisor]:
        """One life of it, from `away_seconds` after the last one on until it is killed."""
        known = [player.agent for player in self.players] if agents is None else agents
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(sqlite, "SqliteStore", self._make_store(full=full))
            patch.setattr(clock, "_VIRTUAL_EPOCH", self._died_at + away_seconds)
            async with supervisor.open(self.path, agents=known, settings=settings) as sup:
                ending: BaseException = Killed()
                async with trio.open_nursery() as self._nursery:
                    try:
                        yield sup
                        await settle()
                    except BaseException as error:  # noqa: BLE001 - raised below, bare
                        ending = error
                    self._die(sup)
                raise ending
        self._drain_scenes()

    def _die(self, sup: Supervisor) -> None:
        self.store.dead.set()
        self._died_at = sup._house.clock.now()
        for player in self.players:
            player.dismiss()
        self._nursery.cancel_scope.cancel()

    def _make_store(self, *, full: bool) -> Callable[..., MortalStore]:
        def make(path: Path, *_: object, snapshot_every: int) -> MortalStore:
            self.store = MortalStore(path, snapshot_every=snapshot_every)
            self.store.is_full = full
            self.store.left = self._dies_after_records
            return self.store

        return make

    def _drain_scenes(self) -> None:
        """Turns of the life before are nobody's business in the next."""
        for player in self.players:
            with suppress(trio.WouldBlock):
                while True:
                    player._receive.receive_nowait()

    async def die_in_recovery(self, *, records: int) -> None:
        """A life that does not even come to its beginning: it dies when it has kept so many."""
        self._dies_after_records = records
        with trio.move_on_after(60.0):
            async with self.life():
                pass
        self._dies_after_records = None
        self._drain_scenes()

    def begin(self, do: Callable[..., Awaitable[object]], *args: object) -> None:
        """Have it done in this life, whether it comes to an end or not."""
        self._nursery.start_soon(do, *args)

    async def die_before(self, fatal: Fatal) -> None:
        """Wait until such a record is to be kept, and is not."""
        self.store.fatal = fatal
        await self.store.dead.wait()


def kind_is(*kinds: str) -> Fatal:
    return lambda record: record.kind in kinds


async def make_busy(sup: Supervisor, player: Player, restart: Restart = NEVER) -> Session:
    """A session in the middle of its turn on "first"."""
    session = await sup.create("player", restart=restart)
    await session.send("first")
    await player.next_scene()
    return session


async def refuse_false_rows(sup: Supervisor) -> None:
    """Every row is what its records say, and these are numbered from 1 on."""
    async for stored in sup._house.store.rows():
        records = await sup._house.store.records(stored.row.id)
        assert [one.seq for one in records] == list(range(1, len(records) + 1))
        assert replay(records) == stored.row
