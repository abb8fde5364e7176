"""The feeds there are: of one session, to its end or beyond, and of all sessions together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from supervisor.core.errors import SessionNotFound
from supervisor.core.records import Record
from supervisor.core.session import Phase
from supervisor.sessions.shell.feed import Everything, Gap, Item, Watcher
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.supervisor import Supervisor

from .events import event_of


@asynccontextmanager
async def session_events(
    session: Session, *, after: int, to_the_end: bool
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The events of one session after a record; `to_the_end`: only until it has stopped."""
    async with session.watch(after=after) as watcher:
        yield UntilStopped(session, watcher, after) if to_the_end else Events(watcher)


@asynccontextmanager
async def all_events(sup: Supervisor, *, after: int) -> AsyncIterator[AsyncIterator[bytes]]:
    """The events of all sessions after a position."""
    async with sup.watch(after=after) as reader:
        yield AllEvents(reader)


class Events:
    """Whatever a watcher sees. Cancelling a wait for the next one loses nothing."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> bytes:
        return event_of(await anext(self._watcher))


class UntilStopped:
    """The same, until the session has stopped and all that it left was seen."""

    def __init__(self, session: Session, watcher: Watcher, after: int) -> None:
        self._session = session
        self._watcher = watcher
        self._seen = after
        # The session may be over: to be looked at before the next wait, and not after the last
        # one, so that a wait which is cancelled loses no event.
        self._may_be_over = True
        # It was over with this record; there may be more of them since, or it is back.
        self._ends_at: int | None = None

    def __aiter__(self) -> UntilStopped:
        return self

    async def __anext__(self) -> bytes:
        if self._may_be_over:
            await self._look()
        try:
            item = await anext(self._watcher)
        except trio.Cancelled:
            self._may_be_over = True  # nothing has come for long
            raise
        self._note(item)
        return event_of(item)

    def _note(self, item: Item) -> None:
        if isinstance(item, Record):
            self._seen = item.seq
            is_end = item.kind == "session_stopped"
            self._may_be_over = is_end or (self._ends_at is not None and item.seq >= self._ends_at)
        elif isinstance(item, Gap):
            self._seen = item.last
            self._may_be_over = True

    async def _look(self) -> None:
        try:
            info = await self._session.info()
        except SessionNotFound:
            raise StopAsyncIteration from None
        self._ends_at = info.last_seq if info.phase is Phase.STOPPED else None
        if self._ends_at is not None and self._seen >= self._ends_at:
            raise StopAsyncIteration
        self._may_be_over = False


class AllEvents:
    """The records of all sessions, each with its position."""

    def __init__(self, reader: Everything) -> None:
        self._reader = reader

    def __aiter__(self) -> AllEvents:
        return self

    async def __anext__(self) -> bytes:
        record = await anext(self._reader)
        return event_of(record, self._reader.position)
