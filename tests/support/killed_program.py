"""A program that is killed and restarted on the same file, without a process for each run.

    async with program.running() as sup:            killed at the end of the block, while it works
        ...
    async with program.running(downtime_seconds=60.0) as sup:
        ...                                         the restarted program, a minute later

After a kill, the store writes nothing more and no call to it returns. The next run finds the file
as it was then.
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
from supervisor.core.facts import as_record
from supervisor.core.fold import replay
from supervisor.sessions import clock
from supervisor.store.port import Write
from supervisor.store.sqlite import store as sqlite
from supervisor.store.sqlite.lock import Lock

from .fake_agents import FakeAgent
from .session_states import NEVER

Args = ParamSpec("Args")
Answer = TypeVar("Answer")
Fatal = Callable[[Record], bool]


class Killed(Exception):
    """Raised to end a run; caught by `running`."""


class KillableStore(sqlite.SqliteStore):
    """A store that can be killed: at once, or before it writes a certain record."""

    def __init__(self, path: Path, lock: Lock | None = None, *, snapshot_every: int = 200) -> None:
        super().__init__(path, lock=lock, snapshot_every=snapshot_every)
        self.killed = trio.Event()
        # The store is killed before it writes a record for which this is true.
        self.fatal: Fatal | None = None
        # The store is killed after this many more records, unless None.
        self.records_left: int | None = None
        # Every write raises StoreDegraded while this is set.
        self.is_full = False
        # The disk is full after this many more writes, unless None.
        self.full_after: int | None = None

    async def _write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Args], Answer],
        *args: Args.args,
        **more: Args.kwargs,
    ) -> Answer:
        if self.killed.is_set():
            await trio.sleep_forever()
        if self.full_after is not None:
            self.is_full = self.full_after <= 0
            self.full_after -= 1
        if self.is_full:
            raise StoreDegraded("the disk is full", hint="free some space")
        return await super()._write(work, *args, **more)

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        if self.records_left is not None:
            return await self._commit_few(writes)
        fatal = next((n for n, one in enumerate(writes) if self._is_fatal(one)), None)
        if fatal is None:
            return await super().commit(writes)
        if fatal:
            await super().commit(writes[:fatal])
        self.killed.set()
        await trio.sleep_forever()
        raise AssertionError

    async def _commit_few(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        answers: list[SupervisorError | None] = []
        for write in writes:
            assert self.records_left is not None
            self.records_left -= len(write.records)
            if self.records_left < 0:
                self.killed.set()
                await trio.sleep_forever()
            answers += await super().commit([write])
        return answers

    def _is_fatal(self, write: Write) -> bool:
        records = (
            *write.records,
            *(write.linked_write.records if write.linked_write is not None else ()),
        )
        return self.fatal is not None and any(self.fatal(as_record(record)) for record in records)


class Program:
    """One file, and the agents of every run."""

    def __init__(self, path: Path, *fake_agents: FakeAgent) -> None:
        self.path = path
        self.fake_agents = fake_agents
        self.store: KillableStore
        self._nursery: trio.Nursery
        self._killed_at = 1_000_000_000.0
        self._kill_after_records: int | None = None

    @asynccontextmanager
    async def running(
        self,
        *,
        agents: Sequence[Any] | None = None,
        settings: Settings | None = None,
        downtime_seconds: float = 1.0,
        full: bool = False,
    ) -> AsyncIterator[Supervisor]:
        """Run the program, `downtime_seconds` after the last kill; kill it when the block ends."""
        known = [fake_agent.agent for fake_agent in self.fake_agents] if agents is None else agents
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(sqlite, "SqliteStore", self._make_store(full=full))
            wall_at = self._killed_at + downtime_seconds
            patch.setattr(clock, "_VIRTUAL_EPOCH", wall_at - trio.current_time())
            async with supervisor.open(self.path, agents=known, settings=settings) as sup:
                ending: BaseException = Killed()
                async with trio.open_nursery() as self._nursery:
                    try:
                        yield sup
                        await settle()
                    except BaseException as error:  # noqa: BLE001 - raised below, outside of the nursery
                        ending = error
                    self._kill(sup)
                raise ending
        self._drain_runs()

    def _kill(self, sup: Supervisor) -> None:
        self.store.killed.set()
        self._killed_at = sup._services.clock.now()
        for fake_agent in self.fake_agents:
            fake_agent.finish_open_runs()
        self._nursery.cancel_scope.cancel()

    def _make_store(self, *, full: bool) -> Callable[..., KillableStore]:
        def make(path: Path, _: object, lock: Lock, *, snapshot_every: int) -> KillableStore:
            self.store = KillableStore(path, lock, snapshot_every=snapshot_every)
            self.store.is_full = full
            self.store.records_left = self._kill_after_records
            return self.store

        return make

    def _drain_runs(self) -> None:
        """Drop the turns of the last run, so that `next_run` returns only turns of the next one."""
        for fake_agent in self.fake_agents:
            with suppress(trio.WouldBlock):
                while True:
                    fake_agent._receive.receive_nowait()

    async def kill_during_recovery(self, *, records: int) -> None:
        """Start the program and kill it during recovery, after it wrote this many records."""
        self._kill_after_records = records
        with trio.move_on_after(60.0):
            async with self.running():
                pass
        self._kill_after_records = None
        self._drain_runs()

    def begin(self, do: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run this in the background until it ends or the program is killed."""
        self._nursery.start_soon(do, *args)

    async def kill_before(self, fatal: Fatal) -> None:
        """Kill the store before it writes such a record; return when that has happened."""
        self.store.fatal = fatal
        await self.store.killed.wait()


def kind_is(*kinds: str) -> Fatal:
    return lambda record: record.kind in kinds


async def make_busy(sup: Supervisor, fake_agent: FakeAgent, restart: Restart = NEVER) -> Session:
    """Return a session with a running turn on "first"."""
    session = await sup.create("fake", restart=restart)
    await session.send("first")
    await fake_agent.next_run()
    return session


async def check_rows(sup: Supervisor) -> None:
    """Check that every row equals the replay of its records, numbered from 1 without gaps."""
    async for stored in sup._services.store.rows():
        records = await sup._services.store.records(stored.row.id)
        assert [one.seq for one in records] == list(range(1, len(records) + 1))
        assert replay(records) == stored.row
