"""The feeds there are: of one session, to its end or beyond, and of all sessions together.

Rule 1: a wait for the next chunk may be cancelled, and loses nothing.
Rule 2: what is there already goes along in one chunk: a chunk costs more than what is in it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from supervisor.core.errors import SessionNotFound
from supervisor.core.info import Info
from supervisor.core.records import Record
from supervisor.core.session import Phase
from supervisor.sessions.shell.feed import Delta, Everything, Gap, Item, Watcher
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.supervisor import Supervisor

from .events import CHUNK_BYTES, event_of, write_event


@asynccontextmanager
async def session_events(
    session: Session, info: Info, *, after: int, to_the_end: bool
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The events of a session after a record, `to_the_end` only until it has stopped.

    `info` is how the session was a moment ago.
    """
    async with session.watch(after=after) as watcher:
        end = End(session, after) if to_the_end else None
        yield SessionEvents(watcher, end, after=after, behind_until=info.last_seq)


@asynccontextmanager
async def all_events(sup: Supervisor, *, after: int) -> AsyncIterator[AsyncIterator[bytes]]:
    """The events of all sessions after a position."""
    async with sup.watch(after=after) as reader:
        yield AllEvents(reader)


class SessionEvents:
    """Chunks of what a watcher sees."""

    def __init__(self, watcher: Watcher, end: End | None, *, after: int, behind_until: int) -> None:
        self._watcher = watcher
        self._end = end
        self._seen = after
        # Records up to this one are in the store: the next is there as soon as it is read.
        self._behind_until = behind_until
        # What was taken and is in no chunk yet. Not empty between two calls if the first one was
        # cancelled.
        self._taken: list[bytes] = []
        self._is_over = False

    def __aiter__(self) -> SessionEvents:
        return self

    async def __anext__(self) -> bytes:
        if not self._taken:
            await self._wait()
        size = sum(map(len, self._taken))
        while size < CHUNK_BYTES and self._may_go_on:
            item = self._watcher.next_nowait()
            if item is not None:
                self._add(item)
            elif self._seen < self._behind_until:
                await self._take()
            else:
                break  # what is not there now is for the next chunk
            if self._is_over:
                break
            size += len(self._taken[-1])
        chunk = b"".join(self._taken)
        self._taken.clear()
        return chunk

    @property
    def _may_go_on(self) -> bool:
        return self._end is None or not self._end.may_be_here

    async def _wait(self) -> None:
        """Wait for the next thing; raises `StopAsyncIteration` if there will be none."""
        if self._end is not None and await self._end.is_reached():
            self._is_over = True
        try:
            if not self._is_over:
                await self._take()
        except trio.Cancelled:
            if self._end is not None:
                self._end.may_be_here = True  # nothing has come for long: look again
            raise
        if self._is_over:
            raise StopAsyncIteration

    async def _take(self) -> None:
        try:
            item = await anext(self._watcher)
        except StopAsyncIteration:
            self._is_over = True
            return
        self._add(item)

    def _add(self, item: Item) -> None:
        self._taken.append(event_of(item))
        if isinstance(item, Delta):
            return
        self._seen = item.last if isinstance(item, Gap) else item.seq
        if self._end is not None:
            self._end.note(item)


class End:
    """Where a session's stream ends: with the last record of a session that has stopped."""

    def __init__(self, session: Session, after: int) -> None:
        self._session = session
        self._seen = after
        # It was over with this record; there may be more of them since, or it is back.
        self._expected_at: int | None = None
        self.may_be_here = True

    def note(self, item: Item) -> None:
        """A record was seen, or missed."""
        if isinstance(item, Record):
            self._seen = item.seq
            is_last = self._expected_at is not None and item.seq >= self._expected_at
            self.may_be_here = is_last or item.kind == "session_stopped"
        elif isinstance(item, Gap):
            self._seen = item.last
            self.may_be_here = True

    async def is_reached(self) -> bool:
        """Whether nothing can follow; looked at only where that may be."""
        if not self.may_be_here:
            return False
        try:
            info = await self._session.info()
        except SessionNotFound:
            return True
        self._expected_at = info.last_seq if info.phase is Phase.STOPPED else None
        self.may_be_here = self._expected_at is not None and self._seen >= self._expected_at
        return self.may_be_here


class AllEvents:
    """The records of all sessions, each with its position."""

    def __init__(self, reader: Everything) -> None:
        self._reader = reader

    def __aiter__(self) -> AllEvents:
        return self

    async def __anext__(self) -> bytes:
        record: Record | None = await anext(self._reader)
        events: list[bytes] = []
        size = 0
        while record is not None:
            events.append(write_event(record, self._reader.position))
            size += len(events[-1])
            record = self._reader.next_nowait() if size < CHUNK_BYTES else None
        return b"".join(events)
