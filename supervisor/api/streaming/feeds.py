"""The feeds there are: of one session, to its end or beyond, and of all together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from supervisor.core.records import Record
from supervisor.core.session import Phase
from supervisor.sessions.shell.feed import Everything, Gap, Item, Watcher
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.supervisor import Supervisor

from .events import event_of


class SessionEvents:
    """Events of one session; without `follow`, up to where it has stopped."""

    def __init__(self, session: Session, watcher: Watcher, *, ends_at: int | None) -> None:
        self._session = session
        self._watcher = watcher
        # With this number, look whether that was the last: the session was, or is, stopped there.
        self._ends_at = ends_at
        self._is_over = False

    def __aiter__(self) -> SessionEvents:
        return self

    async def __anext__(self) -> bytes:
        # Cancelled in here, nothing is lost: a watcher hands out and we look in one step, and
        # whether it was the last is looked at again with the next one.
        if self._is_over:
            raise StopAsyncIteration
        item = await anext(self._watcher)
        return event_of(item)


@asynccontextmanager
async def session_events(
    session: Session, *, after: int, follow: bool
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Open the feed of one session."""
    async with session.watch(after=after) as watcher:
        yield SessionEvents(session, watcher, ends_at=None)
