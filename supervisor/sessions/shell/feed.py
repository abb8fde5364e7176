"""Who watches a session, and what they get: records after their commit, and deltas on the way.

Rule 1: nobody is slowed by a watcher. One that does not keep up loses what is oldest, and is told
        which numbers are missing.
Rule 2: a watcher sees each record at most once, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from supervisor.core.facts import StreamedKind
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record

if TYPE_CHECKING:
    from supervisor.store.port import Store

MAX_UNREAD: Final = 1_000
MAX_AT_ONCE: Final = 32
_PAGE: Final = 500


@attrs.frozen
class Delta:
    """Text on its way into a record: provisional until the record with the same `part` is there.

    `offset` is where it begins, in characters, in the text of that part.
    """

    session_id: SessionId
    turn_id: TurnId
    kind: StreamedKind
    part: str
    offset: int
    text: str


@attrs.frozen
class Gap:
    """Records that this watcher was too slow for, by their numbers, both included."""

    first: int
    last: int


Item: TypeAlias = Record | Delta | Gap


class Watcher:
    """One reader of a feed: `async for item in watcher`.

    Ends when the session is deleted or the supervisor has left. Cancelling a wait loses nothing.
    """

    def __init__(self, session_id: SessionId, store: Store, *, after: int) -> None:
        self._session_id = session_id
        self._store = store
        self._read = after
        # Records up to here come from the store, later ones by `push`. What comes both ways,
        # because it was published while the store was asked, is skipped the second time.
        self._published = after
        self._old: deque[Record] = deque()
        # Invariant: at most MAX_UNREAD of them.
        self._new: deque[Record | Delta] = deque()
        # Whether there are as many: then deltas are not for it, for their records will say it all.
        self.is_full = False
        self._missed: Gap | None = None
        self._reading = trio.Lock()
        self._has_begun = False
        self._ended = False
        self._wake: trio.Event | None = None
        # How many items were given since the reader last let others run.
        self._at_once = 0

    def begin(self, published: int, so_far: Delta | None) -> None:
        """Everything up to this number is in the store, and this much is on its way into a record.

        Before, deltas are not for this watcher: their records may be among those in the store.
        """
        self._published = max(self._published, published)
        self._has_begun = True
        if so_far is not None:
            self.push(so_far)

    def push(self, item: Record | Delta) -> None:
        """Have this for the reader, and forget the oldest if that is too much."""
        if not self._has_begun and type(item) is Delta:
            return
        if self.is_full:
            if type(item) is Delta:
                return
            self._forget(self._new.popleft())
        self._new.append(item)
        self.is_full = len(self._new) >= MAX_UNREAD
        self._rouse()

    def end(self) -> None:
        """Nothing will come any more."""
        self._ended = True
        self._rouse()

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> Item:
        # What is there is given at once, but not for ever: others want to run too.
        if self._at_once < MAX_AT_ONCE:
            item = self.next_nowait()
            if item is not None:
                self._at_once += 1
                return item
        self._at_once = 0
        # Whoever reads it with several tasks gets each item once, in one of them.
        async with self._reading:
            return await self._next()

    def next_nowait(self) -> Item | None:
        """The next item if it is here already; None if it must be read or waited for."""
        if self._reading.locked():
            return None
        if self._old:
            record = self._old.popleft()
            self._read = record.seq
            return record
        return None if self._read < self._published else self._take()

    async def _next(self) -> Item:
        if self._read < self._published and not self._old:
            await self._read_old()
        await trio.lowlevel.checkpoint()
        if self._old:
            record = self._old.popleft()
            self._read = record.seq
            return record
        while True:
            item = self._take()
            if item is not None:
                return item
            if self._ended:
                raise StopAsyncIteration
            self._wake = trio.Event()
            await self._wake.wait()

    def _take(self) -> Item | None:
        """The next thing to see, if there is one; no await, so that none is lost."""
        missed, self._missed = self._missed, None
        if missed is not None and missed.last > self._read:
            missed = Gap(max(missed.first, self._read + 1), missed.last)
            self._read = missed.last
            return missed
        while self._new:
            item = self._new.popleft()
            self.is_full = False
            if type(item) is not Record:
                return item
            if item.seq > self._read:
                self._read = item.seq
                return item
        return None

    async def _read_old(self) -> None:
        limit = min(_PAGE, self._published - self._read)
        self._old.extend(await self._store.records(self._session_id, after=self._read, limit=limit))
        if not self._old:
            self._published = self._read  # deleted meanwhile

    def _forget(self, item: Record | Delta) -> None:
        if type(item) is Record:
            first = item.seq if self._missed is None else self._missed.first
            self._missed = Gap(first, item.seq)

    def _rouse(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None


class Everything:
    """A reader of the records of all sessions, in the order of their commits.

    `position` is that of the last record it gave: begin after it to go on from there.
    """

    def __init__(self, store: Store, *, after: int, is_published: Callable[[Record], bool]) -> None:
        self.position = after
        self._store = store
        self._is_published = is_published
        self._reading = trio.Lock()
        self._page: deque[tuple[int, Record]] = deque()
        self._ended = False
        self._news = False
        self._wake: trio.Event | None = None

    def rouse(self) -> None:
        """There is something new."""
        self._news = True
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    def end(self) -> None:
        """Nothing will come any more."""
        self._ended = True
        self.rouse()

    def __aiter__(self) -> Everything:
        return self

    async def __anext__(self) -> Record:
        async with self._reading:
            return await self._next()

    def next_nowait(self) -> Record | None:
        """The next record if it is here already; None if it must be read or waited for."""
        if self._reading.locked() or not self._page:
            return None
        self.position, record = self._page.popleft()
        return record

    async def _next(self) -> Record:
        while not self._page:
            self._news = False
            for position, record in await self._store.all_records(after=self.position, limit=_PAGE):
                # Committed, but its session has not adopted it: we are told when it has.
                if not self._is_published(record):
                    break
                self._page.append((position, record))
            if self._page or self._news:
                continue
            if self._ended:
                raise StopAsyncIteration
            self._wake = trio.Event()
            await self._wake.wait()
        await trio.lowlevel.checkpoint()
        self.position, record = self._page.popleft()
        return record
