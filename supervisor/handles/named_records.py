"""The records of some sessions in commit order, with positions, and their deltas.

Rule 1: a record is read from the store after its session has published it, so its position is
        known, and all records of the named sessions at lower positions were returned before it. A
        reader that continues after a position therefore misses none and gets none twice.
Rule 2: only numbers and deltas are queued, a bounded number; a slow reader reads records later.
        Deltas that do not fit are dropped: their records will contain the same text.
Rule 3: a delta follows the records that its session published before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from supervisor.core.ids import SessionId
from supervisor.core.records import Delta, Record
from supervisor.sessions.registry import SessionRegistry
from supervisor.store.port import Store

MAX_UNREAD_DELTAS: Final = 1_000

_PAGE_SIZE: Final = 200


class NamedSession:
    """What one session has published and a reader has not returned: deltas, and record numbers."""

    def __init__(self, session_id: SessionId, on_push: Callable[[bool], None]) -> None:
        self.id = session_id
        # The number of the last record returned.
        self.last_seq = 0
        # A number stands for all records up to it.
        self._queue: deque[Delta | int] = deque()
        self._on_push = on_push
        self._has_begun = False
        self.has_ended = False

    @property
    def is_full(self) -> bool:
        """Whether further deltas are dropped."""
        return len(self._queue) >= MAX_UNREAD_DELTAS

    def begin(self, after: int, published: int, partial: Delta | None) -> None:
        """Start after a number; records up to `published` are stored.

        `partial` is the streamed text of the record that is not written yet.
        """
        self.last_seq = after
        # Deltas pushed before belong to stored records, or to `partial`.
        self._queue = deque((published,))
        self._has_begun = True
        if partial is not None:
            self._queue.append(partial)

    def push(self, item: Record | Delta) -> None:
        """Queue a delta, or the number of a record."""
        if not self._has_begun:
            return
        is_record = type(item) is Record
        if is_record:
            if self._queue and type(self._queue[-1]) is int:
                self._queue.pop()
            self._queue.append(item.seq)  # type: ignore[union-attr]
        elif self.is_full:
            return
        else:
            self._queue.append(item)  # type: ignore[arg-type]
        self._on_push(is_record)

    def end(self) -> None:
        """End: the session is deleted, or the supervisor closes."""
        self.has_ended = True

    def next_delta(self) -> Delta | None:
        """Return the next delta that no record precedes, or None."""
        queue = self._queue
        while queue and type(queue[0]) is int and queue[0] <= self.last_seq:
            queue.popleft()
        if queue and type(queue[0]) is Delta:
            return queue.popleft()  # type: ignore[return-value]
        return None

    def skip_missing(self) -> None:
        """Do not wait for queued records: the session was deleted."""
        for item in self._queue:
            if type(item) is int:
                self.last_seq = max(self.last_seq, item)


class NamedRecords:
    """The records and deltas of the named sessions, for one reader.

    `on_news` is called when there may be something to return.
    """

    def __init__(
        self,
        store: Store,
        registry: SessionRegistry,
        session_ids: Iterable[SessionId],
        on_news: Callable[[], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._on_news = on_news
        self._sessions = {one: NamedSession(one, self._on_push) for one in session_ids}
        self._page: deque[tuple[int, Record]] = deque()
        # The position of the last record returned.
        self.position = 0
        # Whether a read may find more, and whether the last one met an unpublished record.
        self.has_unread = False
        self._is_blocked = False

    async def open(self, after: int) -> None:
        """Subscribe to the sessions, after a position; raise SessionNotFound."""
        self.position = after
        for one in self._sessions.values():
            self._registry.slot(one.id).subscribers.add_watcher(one)
        numbers = await self._store.numbers_at(after, self._sessions) if after else {}
        for one in self._sessions.values():
            stored = await self._registry.stored(one.id)
            slot = self._registry.slot(one.id)
            published = max(stored.last_seq, slot.subscribers.published_seq or 0)
            one.begin(numbers.get(one.id, 0), published, slot.partial_delta())
        self.has_unread = bool(self._sessions)

    def close(self) -> None:
        """Unsubscribe."""
        for one in self._sessions.values():
            slot = self._registry.find_slot(one.id)
            if slot is not None:
                slot.subscribers.remove_watcher(one)
                self._registry.drop_unused(slot)

    def notify(self) -> None:
        """Read again if a record was stored and not published at the last read."""
        if self._is_blocked:
            self._on_push(True)  # noqa: FBT003 - as if it were pushed

    def _on_push(self, is_record: bool) -> None:  # noqa: FBT001 - a callback
        self.has_unread = self.has_unread or is_record
        self._on_news()

    def next_nowait(self) -> Record | Delta | None:
        """Return the next item that is in memory; None if it must be read or awaited."""
        for one in self._sessions.values():
            delta = one.next_delta()
            if delta is not None:
                return delta
        if not self._page:
            return None
        self.position, record = self._page.popleft()
        self._sessions[record.session_id].last_seq = record.seq
        return record

    async def read(self) -> None:
        """Read the next page of records. Cancellation loses none."""
        self.has_unread = self._is_blocked = False
        after = {one.id: one.last_seq for one in self._sessions.values()}
        try:
            found = await self._store.records_by_position(after, limit=_PAGE_SIZE)
        except BaseException:
            self.has_unread = True
            raise
        for position, record in found:
            # Committed, but not adopted by its session yet: `notify` or a push follows.
            if not self._registry.is_published(record):
                self._is_blocked = True
                break
            self._page.append((position, record))
        if len(found) == _PAGE_SIZE and not self._is_blocked:
            self.has_unread = True
        if not found:
            for one in self._sessions.values():
                if one.has_ended:
                    one.skip_missing()
