"""Feeds: a `Watcher` reads one session, records and deltas; a `GlobalFeed` reads all sessions.

Rule 1: a watcher never slows a session. A watcher that does not keep up loses the oldest items and
        gets a `Gap` with the missing record numbers.
Rule 2: a watcher sees each record at most once, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import trio
from trio_util import AsyncBool

from supervisor.core.ids import SessionId
from supervisor.core.records import Delta, Gap, Item, Record, Reset
from supervisor.store.port import Store

MAX_UNREAD: Final = 1_000

MAX_WITHOUT_CHECKPOINT: Final = 32

_PAGE_SIZE: Final = 500


class Watcher:
    """One reader of a feed: `async for item in watcher`.

    Ends when the session is deleted or the supervisor closes. Cancelling a wait loses no item.
    """

    def __init__(self, session_id: SessionId, store: Store, *, after: int) -> None:
        self._session_id = session_id
        self._store = store
        self._last_read_seq = after
        # Records up to this number are read from the store, later ones arrive by `push`. A record
        # published during the read arrives both ways and is skipped the second time.
        self._stored_seq = after
        self._from_store: deque[Record | Reset] = deque()
        # Invariant: at most MAX_UNREAD items.
        self._pushed: deque[Record | Delta] = deque()
        # True if there are MAX_UNREAD items. Then deltas are not pushed: their records will
        # contain the same text.
        self.is_full = False
        self._gap: Gap | None = None
        self._read_lock = trio.Lock()
        self._has_begun = False
        self._ended = False
        # Not a RepeatedEvent: with ten deltas for each wake-up a delta would take 26 % longer (1.48
        # instead of 1.17 us), and an idle watcher 1.6 KB more.
        self._wake: trio.Event | None = None
        # Items returned since the reader's last checkpoint.
        self._since_checkpoint = 0

    @property
    def last_read(self) -> int:
        """The number of the last record returned or missed, or that the feed starts after."""
        return self._last_read_seq

    def begin(self, published: int, partial: Delta | None) -> None:
        """Start the feed; records up to number `published` are in the store.

        If it was to start after a later number, it starts with a `Reset` and from the first record.
        `partial` is the streamed text of the record that is not written yet, None without one.
        Deltas pushed before are dropped, because their records may already be in the store.
        """
        if self._last_read_seq > published:
            self._last_read_seq = self._stored_seq = 0
            self._from_store.append(Reset(published))
        self._stored_seq = max(self._stored_seq, published)
        self._has_begun = True
        if partial is not None:
            self.push(partial)

    def push(self, item: Record | Delta) -> None:
        """Queue an item for the reader; if the queue is full, drop the oldest."""
        if not self._has_begun and type(item) is Delta:
            return
        if self.is_full:
            if type(item) is Delta:
                return
            self._extend_gap(self._pushed.popleft())
        self._pushed.append(item)
        self.is_full = len(self._pushed) >= MAX_UNREAD
        self._notify()

    def end(self) -> None:
        """End the feed after the queued items."""
        self._ended = True
        self._notify()

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> Item:
        # Queued items are returned at once, with a checkpoint now and then so that other tasks run.
        if self._since_checkpoint < MAX_WITHOUT_CHECKPOINT:
            item = self.next_nowait()
            if item is not None:
                self._since_checkpoint += 1
                return item
        self._since_checkpoint = 0
        # If several tasks read, each item goes to exactly one of them.
        async with self._read_lock:
            return await self._next()

    def next_nowait(self) -> Item | None:
        """Return the next item if it is in memory; None if it must be read or awaited."""
        if self._read_lock.locked():
            return None
        if self._from_store:
            return self._take_stored()
        return None if self._last_read_seq < self._stored_seq else self._pop()

    async def _next(self) -> Item:
        if self._last_read_seq < self._stored_seq and not self._from_store:
            await self._load_page()
        await trio.lowlevel.checkpoint()
        if self._from_store:
            return self._take_stored()
        while True:
            item = self._pop()
            if item is not None:
                return item
            if self._ended:
                raise StopAsyncIteration
            self._wake = trio.Event()
            await self._wake.wait()

    def _take_stored(self) -> Record | Reset:
        item = self._from_store.popleft()
        if type(item) is Record:
            self._last_read_seq = item.seq
        return item

    def _pop(self) -> Item | None:
        """Return the next gap or item, or None. Cancellation loses no item: nothing is awaited."""
        missed, self._gap = self._gap, None
        if missed is not None and missed.last > self._last_read_seq:
            missed = Gap(max(missed.first, self._last_read_seq + 1), missed.last)
            self._last_read_seq = missed.last
            return missed
        while self._pushed:
            item = self._pushed.popleft()
            self.is_full = False
            if type(item) is not Record:
                return item
            if item.seq > self._last_read_seq:
                self._last_read_seq = item.seq
                return item
        return None

    async def _load_page(self) -> None:
        limit = min(_PAGE_SIZE, self._stored_seq - self._last_read_seq)
        self._from_store.extend(
            await self._store.records(self._session_id, after=self._last_read_seq, limit=limit)
        )
        if not self._from_store:
            self._stored_seq = self._last_read_seq  # deleted meanwhile

    def _extend_gap(self, item: Record | Delta) -> None:
        if type(item) is Record:
            first = item.seq if self._gap is None else self._gap.first
            self._gap = Gap(first, item.seq)

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None


class GlobalFeed:
    """Reader of the records of all sessions, in the order of their commits.

    `position` is the position of the last returned record; a new feed can start after it. `highest`
    is the highest position in the store: if `after` is beyond it, the feed raises `RecordNotFound`
    once, and a reader that goes on gets all records from the first.
    """

    def __init__(
        self, store: Store, *, after: int, highest: int, is_published: Callable[[Record], bool]
    ) -> None:
        self.position = after if after <= highest else 0
        self._store = store
        self._is_published = is_published
        self._read_lock = trio.Lock()
        self._page: deque[tuple[int, Record | Reset]] = deque()
        if after > highest:
            self._page.append((0, Reset(highest)))
        self._ended = False
        # Whether there may be records that were published after the last read began.
        self._has_new = AsyncBool()

    def notify(self) -> None:
        """Wake the reader, because there may be new records."""
        self._has_new.value = True

    def end(self) -> None:
        """End the feed after the stored records."""
        self._ended = True
        self.notify()

    def __aiter__(self) -> GlobalFeed:
        return self

    async def __anext__(self) -> Record:
        item = await self.next_item()
        if isinstance(item, Reset):
            raise item.to_error()
        return item

    async def next_item(self) -> Record | Reset:
        """Wait for the next item; raise StopAsyncIteration at the end."""
        async with self._read_lock:
            return await self._next()

    def next_nowait(self) -> Record | Reset | None:
        """Return the next item if it is in memory; None if it must be read or awaited."""
        if self._read_lock.locked() or not self._page:
            return None
        self.position, item = self._page.popleft()
        return item

    async def _next(self) -> Record | Reset:
        while not self._page:
            self._has_new.value = False
            for position, record in await self._store.all_records(
                after=self.position, limit=_PAGE_SIZE
            ):
                # Committed, but not adopted by its session yet: `notify` follows the adoption.
                if not self._is_published(record):
                    break
                self._page.append((position, record))
            if self._page or self._has_new.value:
                continue
            if self._ended:
                raise StopAsyncIteration
            await self._has_new.wait_value(True)  # noqa: FBT003 - the value waited for
        await trio.lowlevel.checkpoint()
        self.position, item = self._page.popleft()
        return item


class FeedReader(Protocol):
    """A reader that is woken when any session may have new records."""

    def notify(self) -> None:
        """Wake the reader, because there may be new records."""

    def end(self) -> None:
        """End the feed after the stored records."""


class ItemReader(Protocol):
    """A reader to which a session pushes its records and deltas."""

    @property
    def is_full(self) -> bool:
        """True if deltas need not be pushed, because they would be dropped."""

    def push(self, item: Record | Delta) -> None:
        """Queue an item for the reader."""

    def end(self) -> None:
        """End the feed after the queued items."""


class GlobalFeeds:
    """The open readers of all records."""

    __slots__ = ("readers",)

    def __init__(self) -> None:
        self.readers: list[FeedReader] = []

    def add(self, reader: FeedReader) -> None:
        """Notify the reader from now on."""
        self.readers.append(reader)

    def remove(self, reader: FeedReader) -> None:
        """Stop notifying the reader."""
        self.readers.remove(reader)

    def notify(self) -> None:
        """Wake all readers, because there may be new records."""
        for reader in self.readers:
            reader.notify()

    def end(self) -> None:
        """End all readers."""
        for reader in self.readers:
            reader.end()
