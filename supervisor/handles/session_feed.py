"""The feed of `watch_sessions()`: rows of all sessions, records of a few.

Rule 1: the feed slows no session. Of each session only the latest row is queued, and records are
        read from the store when the reader takes them.
Rule 2: if too much is queued, it is dropped, and the next item is a new `Snapshot`.
Rule 3: `position` is where a new feed over the same sessions can continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from supervisor.core.ids import SessionId
from supervisor.sessions.feed import MAX_WITHOUT_CHECKPOINT

from .live_rows import LiveRows
from .named_records import NamedRecords
from .parts import Parts
from .row_reader import RowItem
from .session_rows import RequestClosed, RequestOpened, WatchItem

# Queued rows and requests: more than a snapshot would be.
MAX_UNREAD_ROWS: Final = 20_000


class SessionFeed:
    """One reader: `async for item in feed`. Cancelling a wait loses no item.

    The first item is a `Snapshot`. The feed ends when the supervisor closes.
    """

    def __init__(self, parts: Parts, sessions: Sequence[SessionId]) -> None:
        self._services = parts.services
        self._rows: LiveRows = parts.rows
        self._has_named = bool(sessions)
        self._named = NamedRecords(
            parts.services.store, parts.registry, sessions, self._notify_reader
        )
        self.position = 0
        self._pending: dict[str, RowItem] = {}
        self._needs_snapshot = True
        self._is_reset = False
        self._ended = False
        self._wake: trio.Event | None = None
        self._read_lock = trio.Lock()
        self._since_checkpoint = 0

    async def open(self, after: int) -> None:
        """Start after a position; raise SessionNotFound for an unknown named session."""
        last = await self._services.store.last_position()
        self._is_reset = after > last
        self.position = min(after, last)
        self._services.feeds.add(self)
        await self._named.open(self.position)
        await self._rows.open(self)

    def close(self) -> None:
        """End the feed at once."""
        self._ended = True
        if self in self._services.feeds.readers:
            self._services.feeds.remove(self)
        self._named.close()
        self._rows.close(self)
        self._notify_reader()

    # From the supervisor ------------------------------------------------------------------

    def push(self, key: str, item: RowItem) -> None:
        """Queue a row, a request or the health of the store; the latest of each key counts."""
        if self._needs_snapshot:
            return  # the snapshot will contain it
        if isinstance(item, RequestClosed) and isinstance(self._pending.get(key), RequestOpened):
            del self._pending[key]
            return
        self._pending[key] = item
        if len(self._pending) > MAX_UNREAD_ROWS:
            self._pending.clear()
            self._needs_snapshot = True
        self._notify_reader()

    def notify(self) -> None:
        """Take note that any session may have new records."""
        self._named.notify()

    def end(self) -> None:
        """End the feed after the queued items."""
        self._ended = True
        self._notify_reader()

    def _notify_reader(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    # From the reader ----------------------------------------------------------------------

    def __aiter__(self) -> SessionFeed:
        return self

    async def __anext__(self) -> WatchItem:
        if self._since_checkpoint < MAX_WITHOUT_CHECKPOINT:
            item = self.next_nowait()
            if item is not None:
                self._since_checkpoint += 1
                return item
        self._since_checkpoint = 0
        # If several tasks read, each item goes to exactly one of them.
        async with self._read_lock:
            return await self._next()

    def next_nowait(self) -> WatchItem | None:
        """Return the next item if it is in memory; None if it must be read or awaited."""
        return None if self._needs_snapshot or self._read_lock.locked() else self._pop()

    async def _next(self) -> WatchItem:
        while True:
            if self._needs_snapshot and not self._ended:
                return await self._take_snapshot()
            item = self._pop()
            if item is not None:
                await trio.lowlevel.checkpoint_if_cancelled()
                return item
            if self._named.has_unread:
                await self._named.read()
                continue
            if self._ended:
                raise StopAsyncIteration
            self._wake = trio.Event()
            await self._wake.wait()

    async def _take_snapshot(self) -> WatchItem:
        position = await self._services.store.last_position()
        self._pending.clear()
        snapshot = self._rows.snapshot(position, is_reset=self._is_reset)
        self._needs_snapshot = self._is_reset = False
        if not self._has_named:
            self.position = position
        return snapshot

    def _pop(self) -> WatchItem | None:
        """Return a queued item, or None. Cancellation loses no item, because nothing is awaited."""
        if self._pending:
            return self._pending.pop(next(iter(self._pending)))
        item = self._named.next_nowait()
        if item is not None and self._has_named:
            self.position = max(self.position, self._named.position)
        return item
