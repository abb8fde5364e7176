"""Server-sent events: their encoding, the events of one session or of all sessions, the stream.

A reader resumes after the `id:` of its last record. Deltas and gaps have no `id:`. A reset has 0.

Rule 1: a cancelled wait for the next chunk loses no event.
Rule 2: events that are ready go into one chunk, because a chunk costs more than an event.
Rule 3: a stream buffers nothing beyond its feed, which is bounded and blocks no session.
Rule 4: a reader that takes nothing for `WRITE_SECONDS` is dropped; a disconnect ends the stream.
Rule 5: after a burst of chunks a stream is paced: one chunk at a time, with all events since the
        last one; the more streams there are, the longer the pause. A single stream is barely
        delayed.
Rule 6: the status is sent before the first event, so a later error becomes the last event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, TypeAlias

import trio
from starlette.types import Receive, Scope, Send
from trio_util import move_on_when

from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.core.info import Info
from supervisor.core.records import Delta, Gap, Item, Record, Reset
from supervisor.core.state import Phase
from supervisor.handles.session import Session
from supervisor.handles.session_rows import SessionRow
from supervisor.handles.supervisor import Supervisor
from supervisor.http_server.problems import ProblemDetails, problem_of
from supervisor.http_server.response import SAFE_HEADERS
from supervisor.sessions.feed import GlobalFeed, Watcher

from .drain import DrainState
from .encode import encode
from .operation import StreamResponse

# The delay after which browsers reconnect.
RETRY_HINT: Final = b"retry: 2000\n\n"
# A chunk takes ready events up to this size.
CHUNK_BYTES: Final = 64 * 1024

KEEPALIVE: Final = b": keepalive\n\n"


# Events that many streams send are encoded once. Keyed by identity; the entry holds the item, so
# its id is not reused.
_CACHE: Final[dict[int, tuple[Item | SessionRow, bytes]]] = {}

_CACHE_SIZE: Final = 1024

_MAX_CACHED_BYTES: Final = 4096


# The names of events that have no number.
_UNNUMBERED: Final[dict[type, bytes]] = {Delta: b"delta", Gap: b"gap", SessionRow: b"row"}


def encode_event_cached(item: Item | SessionRow) -> bytes:
    """Return the event of an item, from the cache if another stream has encoded it."""
    written = _CACHE.get(id(item))
    if written is not None:
        return written[1]
    event = encode_event(item)
    if len(event) <= _MAX_CACHED_BYTES:
        if len(_CACHE) >= _CACHE_SIZE:
            del _CACHE[next(iter(_CACHE))]
        _CACHE[id(item)] = (item, event)
    return event


def encode_event(item: Item | SessionRow, number: int | None = None) -> bytes:
    """Return the event of an item; `number` replaces the number of the record as `id:`."""
    if isinstance(item, Record):
        at = item.seq if number is None else number
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (at, item.kind.encode(), encode(item))
    if isinstance(item, Reset):
        # The number to resume after, until the first record follows.
        return b"id: 0\nevent: reset\ndata: %b\n\n" % encode(item)
    assert isinstance(item, Delta | Gap | SessionRow)
    return b"event: %b\ndata: %b\n\n" % (_UNNUMBERED[type(item)], encode(item))


def encode_problem_event(problem: ProblemDetails) -> bytes:
    """Return the last event of a stream that failed."""
    return b"event: problem\ndata: %b\n\n" % encode(problem.to_json())


@asynccontextmanager
async def session_events(
    session: Session, info: Info, *, after: int, until_stopped: bool
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the events of a session after a record; `until_stopped` ends them when it has stopped.

    `info` is a recent state of the session.
    """
    async with session.watch(after=after) as watcher:
        end = StreamEnd(session, watcher.last_read) if until_stopped else None
        yield SessionEvents(watcher, end, stored_until=info.last_seq)


@asynccontextmanager
async def global_events(sup: Supervisor, *, after: int) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the events of all sessions after a position."""
    async with sup.watch(after=after) as reader:
        yield GlobalEvents(reader)


class SessionEvents:
    """Chunks of the events of one session."""

    def __init__(self, watcher: Watcher, end: StreamEnd | None, *, stored_until: int) -> None:
        self._watcher = watcher
        self._end = end
        self._seen = watcher.last_read
        # Records up to this one are stored, so reading them does not wait for the session.
        self._stored_until = stored_until
        # Taken from the watcher and not in a chunk yet; kept when a call is cancelled.
        self._pending: list[bytes] = []
        self._is_over = False

    def __aiter__(self) -> SessionEvents:
        return self

    async def __anext__(self) -> bytes:
        if not self._pending:
            await self._wait()
        size = sum(map(len, self._pending))
        while size < CHUNK_BYTES and self._can_continue:
            item = self._watcher.next_nowait()
            if item is not None:
                self._add(item)
            elif self._seen < self._stored_until:
                await self._take()
            else:
                break  # no further event is ready: send the chunk
            if self._is_over:
                break
            size += len(self._pending[-1])
        chunk = b"".join(self._pending)
        self._pending.clear()
        return chunk

    @property
    def _can_continue(self) -> bool:
        return self._end is None or not self._end.is_possible

    async def _wait(self) -> None:
        """Wait for the next item; raise StopAsyncIteration at the end."""
        if self._end is not None and await self._end.is_reached():
            self._is_over = True
        try:
            if not self._is_over:
                await self._take()
        except trio.Cancelled:
            if self._end is not None:
                self._end.is_possible = True  # silence for a keepalive: check again
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
        self._pending.append(encode_event_cached(item))
        if isinstance(item, Delta | Reset):
            return
        self._seen = item.last if isinstance(item, Gap) else item.seq
        if self._end is not None:
            self._end.note(item)


class StreamEnd:
    """Detects the end of a stream: the last record of a stopped session."""

    def __init__(self, session: Session, after: int) -> None:
        self._session = session
        self._seen = after
        # The last record when the session was seen stopped; it may have been resumed since.
        self._expected_at: int | None = None
        self.is_possible = True

    def note(self, item: Item) -> None:
        """Note a record or a gap."""
        if isinstance(item, Record):
            self._seen = item.seq
            is_last = self._expected_at is not None and item.seq >= self._expected_at
            self.is_possible = is_last or item.kind == "session_stopped"
        elif isinstance(item, Gap):
            self._seen = item.last
            self.is_possible = True

    async def is_reached(self) -> bool:
        """Return True if no record can follow.

        Read the session only after a record that may be the last.
        """
        if not self.is_possible:
            return False
        try:
            info = await self._session.info()
        except SessionNotFound:
            return True
        self._expected_at = info.last_seq if info.phase is Phase.STOPPED else None
        self.is_possible = self._expected_at is not None and self._seen >= self._expected_at
        return self.is_possible


class GlobalEvents:
    """Chunks of the records of all sessions, with their positions."""

    def __init__(self, reader: GlobalFeed) -> None:
        self._reader = reader

    def __aiter__(self) -> GlobalEvents:
        return self

    async def __anext__(self) -> bytes:
        item: Record | Reset | None = await self._reader.next_item()
        events: list[bytes] = []
        size = 0
        while item is not None:
            events.append(encode_event(item, self._reader.position))
            size += len(events[-1])
            item = self._reader.next_nowait() if size < CHUNK_BYTES else None
        return b"".join(events)


KEEPALIVE_SECONDS: Final = 15.0

WRITE_SECONDS: Final = 30.0
# The pause between two chunks, for each open stream, and its maximum.
PACE_SECONDS_PER_STREAM: Final = 0.0001

MAX_PACE_SECONDS: Final = 0.01

BURST: Final = 16

# Opens the feed and yields chunks; raises before anything was sent if the feed is missing.
Source: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncIterator[bytes]]]


class _ReaderLost(Exception):
    """The reader stalled or disconnected."""


class EventStream(StreamResponse):
    """A streamed answer of server-sent events."""

    def __init__(self, source: Source, drain_state: DrainState) -> None:
        self._source = source
        self._drain_state = drain_state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Stream until the source ends, the reader stalls or disconnects, or the server closes."""
        writing = _EventWriter(send)
        # The source first: its errors are raised bare, those of the others in groups.
        async with (
            self._source() as chunks,
            self._drain_state.move_on_when_closed(),
            move_on_when(_wait_disconnected, receive) as connected,
        ):
            await _pump(chunks, writing, _Pacer(self._drain_state))
        if not writing.is_over and not connected.cancel_called:
            await writing.end()


class _EventWriter:
    """Sending side of a stream, with a timeout for each write."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_over = False  # the reader is lost

    async def begin(self) -> None:
        headers = [*SAFE_HEADERS, (b"content-type", b"text/event-stream; charset=utf-8")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.write(RETRY_HINT)

    async def write(self, chunk: bytes) -> None:
        try:
            with trio.fail_after(WRITE_SECONDS):
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        except (OSError, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError):
            self.is_over = True
            raise _ReaderLost from None

    async def end(self) -> None:
        with trio.move_on_after(WRITE_SECONDS, shield=True):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Pacer:
    """Pacing of chunks: no delay within a burst, then a pause after each."""

    def __init__(self, drain_state: DrainState) -> None:
        self._drain_state = drain_state
        # When all chunks so far would have been sent at the paced rate.
        self._due = 0.0

    async def wait(self) -> None:
        """Count one chunk, and wait if the burst is used up."""
        now = trio.current_time()
        pause = min(MAX_PACE_SECONDS, self._drain_state.open_streams * PACE_SECONDS_PER_STREAM)
        self._due = max(self._due, now) + pause
        too_early = self._due - now - BURST * pause
        if too_early > 0:
            await trio.sleep(too_early)


async def _pump(chunks: AsyncIterator[bytes], writing: _EventWriter, pace: _Pacer) -> None:
    with suppress(_ReaderLost):
        try:
            await writing.begin()
            while True:
                chunk = KEEPALIVE
                with trio.move_on_after(KEEPALIVE_SECONDS):
                    chunk = await anext(chunks)
                await writing.write(chunk)
                if len(chunk) < CHUNK_BYTES:  # a full chunk: more events are ready
                    await pace.wait()
        except StopAsyncIteration:
            return
        except SupervisorError as error:
            await writing.write(encode_problem_event(problem_of(error)))
