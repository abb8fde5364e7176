"""The events of `GET /v1/watch`: rows of all sessions, records of the named ones.

A reader resumes after the `id:` of the last snapshot or record. Other events have no `id:`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from supervisor.core.ids import SessionId
from supervisor.core.records import Delta, Gap, Record
from supervisor.handles.session_feed import SessionFeed
from supervisor.handles.session_rows import (
    RequestClosed,
    RequestOpened,
    SessionGone,
    SessionRow,
    Snapshot,
    StoreChanged,
    WatchItem,
)
from supervisor.handles.supervisor import Supervisor
from supervisor.sessions.inbox import PermissionRequest
from supervisor.store.pending import StoreState

from .encode import encode, encode_list
from .sse import CHUNK_BYTES, encode_event, encode_event_cached

EVENT_NAMES: Final[dict[type, str]] = {
    Snapshot: "snapshot",
    SessionRow: "row",
    SessionGone: "gone",
    RequestOpened: "request",
    RequestClosed: "answered",
    StoreChanged: "store",
}

# Their module does not import these classes, which only the server needs at run time.
for _kind in (Snapshot, RequestOpened, StoreChanged):
    attrs.resolve_types(
        _kind, localns={"PermissionRequest": PermissionRequest, "StoreState": StoreState}
    )


@asynccontextmanager
async def watch_events(
    sup: Supervisor, sessions: Sequence[SessionId], *, after: int
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the events of all rows and of the named sessions, after a position."""
    async with sup.watch_sessions(sessions, after) as feed:
        yield WatchEvents(feed)


class WatchEvents:
    """Chunks of the events of a feed."""

    def __init__(self, feed: SessionFeed) -> None:
        self._feed = feed
        # Taken from the feed and not returned yet, with its position; kept over a cancelled call.
        self._snapshot: Snapshot | None = None
        self._position = 0

    def __aiter__(self) -> WatchEvents:
        return self

    async def __anext__(self) -> bytes:
        item: WatchItem | None = self._snapshot or await anext(self._feed)
        if isinstance(item, Snapshot):
            if self._snapshot is None:
                self._snapshot, self._position = item, self._feed.position
            event = await encode_snapshot(item, self._position)
            self._snapshot = None
            return event
        events: list[bytes] = []
        size = 0
        while item is not None:
            events.append(_encode_item(item, self._feed.position))
            size += len(events[-1])
            # A snapshot is never in memory, so none is taken here.
            item = self._feed.next_nowait() if size < CHUNK_BYTES else None
        return b"".join(events)


def _encode_item(item: WatchItem, position: int) -> bytes:
    if isinstance(item, Record):
        return encode_event(item, position)
    if isinstance(item, Delta | Gap | SessionRow):
        return encode_event_cached(item)
    return b"event: %b\ndata: %b\n\n" % (EVENT_NAMES[type(item)].encode(), encode(item))


async def encode_snapshot(snapshot: Snapshot, number: int) -> bytes:
    """Return the event of a snapshot; other tasks may run between two rows."""
    fields = {name: getattr(snapshot, name) for name in Snapshot.__annotations__ if name != "rows"}
    rows = await encode_list(snapshot.rows)
    await trio.lowlevel.checkpoint()
    data = encode(fields)[:-1] + b',"rows":' + rows + b"}"
    return b"id: %d\nevent: snapshot\ndata: %b\n\n" % (number, data)
