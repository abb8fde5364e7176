"""Feeds of a remote supervisor, continued over broken connections and restarts of the daemon.

Rule 1: a cancelled wait loses no item.
Rule 2: after any break the feed continues after the last received number: each record once, in
        order. Records that the server had to skip are reported as a `Gap`. If the server has no
        record with that number, because its store was restored from an older backup, the feed
        yields a `Reset`, or raises `RecordNotFound` if it is that of all sessions, and starts again
        from the first record.
Rule 3: while no daemon listens the feed reconnects, for `MAX_ABSENCE_SECONDS`; then it raises.
Rule 4: the feed ends when the block of `connect()` does, also for the tasks that wait for an item.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
import orjson

from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.core.records import Delta, Gap, Item, Record, Reset
from supervisor.http_server.problems import error_of

from .http_client import ConnectionBroken
from .running_loop import running_loop
from .stream import EventTooLong, HttpStream, ServerSentEvent, SseParser
from .transport import MAX_ABSENCE_SECONDS, AnswerLost, DaemonBusy, NoDaemon, Transport

T = TypeVar("T")
F = TypeVar("F", bound="RemoteFeed[Any]")

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 2.0
_NO_CONTENT: Final = 204
# Errors of a daemon that starts or stops: the next attempt may succeed.
_TRANSIENT_CODES: Final = frozenset(
    {NoDaemon.code, DaemonBusy.code, AnswerLost.code, "draining", "not_ready"}
)

# An item, and the number to continue after once it has arrived (None: unchanged).
# An error is raised in the place of an item.
Numbered: TypeAlias = tuple[T | SupervisorError, int | None]


class RemoteFeed(Generic[T]):
    """A stream of items for `async for`."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        query: Mapping[str, Any],
        decode: Callable[[ServerSentEvent], Numbered[T]],
    ) -> None:
        self._transport = transport
        self._path = path
        self._query = query
        self._decode = decode
        self._reading = running_loop().make_lock()
        self._stream: HttpStream | None = None
        self._parser = SseParser()
        self._ready: deque[Numbered[T]] = deque()
        self._error: SupervisorError | None = None
        self._ended = False
        self._pause = _FIRST_PAUSE_SECONDS
        self._away_since: float | None = None
        # The numbers of the last item received, and of the last item returned.
        self._last_received: int = query["after"]
        self.last_returned: int = query["after"]

    def __aiter__(self) -> RemoteFeed[T]:
        return self

    async def __anext__(self) -> T:
        # Several tasks may read one feed: each item goes to exactly one of them.
        async with self._reading:
            while not self._ready:
                if self._error is not None:
                    raise self._error
                if self._ended or self._transport.is_closed:
                    raise StopAsyncIteration
                with self._until_closed():
                    await self._fill()
            item, number = self._ready.popleft()
            self.last_returned = self.last_returned if number is None else number
            if isinstance(item, SupervisorError):
                raise item
            return item

    @property
    def is_connected(self) -> bool:
        """True while a stream is open; without one, the feed reconnects."""
        return self._stream is not None

    async def open(self) -> None:
        """Open the stream; raise the daemon's error if the stream does not exist."""
        self._transport.refuse_if_closed()
        with self._until_closed():
            await self._open()
        self._transport.refuse_if_closed()

    def close(self) -> None:
        """End the feed and disconnect."""
        self._ended = True
        self._disconnect()

    def _until_closed(self) -> AbstractContextManager[None]:
        return self._transport.until_closed(running_loop().move_on_after(math.inf))

    # Reading ------------------------------------------------------------------------------

    async def _fill(self) -> None:
        """Receive and parse one chunk, or reconnect."""
        if self._stream is None:
            await self._reconnect()
            return
        try:
            chunk = await self._stream.receive()
        except ConnectionBroken:
            chunk = None
        if chunk is None:
            self._disconnect()
            return
        try:
            for event in self._parser.feed(chunk):
                self._handle_event(event)
        except EventTooLong:
            self._error = AnswerLost(
                "the server's answer is not an event stream",
                hint="compare its version with `understudy version`",
            )

    def _handle_event(self, event: ServerSentEvent) -> None:
        if event.name == "problem":
            error = error_of(orjson.loads(event.data), status=503)
            self._error = None if error.code in _TRANSIENT_CODES else error
            return
        item, number = self._decode(event)
        self._ready.append((item, number))
        if number is not None:
            self._last_received = number
            self._pause = _FIRST_PAUSE_SECONDS

    async def _reconnect(self) -> None:
        """Pause, then open a stream that continues after the last received record."""
        loop = running_loop()
        await loop.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        try:
            await self._open()
        except SessionNotFound:
            self._ended = True  # the session was deleted: no record can follow
        except SupervisorError as error:
            now = loop.current_time()
            self._away_since = now if self._away_since is None else self._away_since
            if error.code not in _TRANSIENT_CODES or now - self._away_since > MAX_ABSENCE_SECONDS:
                raise
        else:
            self._away_since = None

    async def _open(self) -> None:
        headers = {"accept": "text/event-stream"}
        if self._last_received:
            headers["last-event-id"] = str(self._last_received)
        query = {**self._query, "after": self._last_received}
        stream = await self._transport.open_stream(self._path, query, headers)
        if stream.status == _NO_CONTENT:
            self._ended = True
        self._stream, self._parser = stream, SseParser()

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


@asynccontextmanager
async def open_feed(feed: F) -> AsyncIterator[F]:
    """Open the feed for the duration of the block; raise as `RemoteFeed.open` does."""
    try:
        await feed.open()
        yield feed
    finally:
        feed.close()


class RemoteWatcher(RemoteFeed[Item]):
    """The records and deltas of one session; see `supervisor.Watcher`."""

    def __init__(self, transport: Transport, path: str, query: Mapping[str, Any]) -> None:
        super().__init__(transport, path, query, decode_item)


class RemoteGlobalFeed(RemoteFeed[Record]):
    """The records of all sessions; see `supervisor.GlobalFeed`."""

    def __init__(self, transport: Transport, path: str, query: Mapping[str, Any]) -> None:
        super().__init__(transport, path, query, _decode_record)

    @property
    def position(self) -> int:
        """The position of the last record returned; a new feed can start after it."""
        return self.last_returned


_DELTA_FIELDS: Final = tuple(field.name for field in attrs.fields(Delta))


def _decode_record(event: ServerSentEvent) -> Numbered[Record]:
    if event.name == "reset":
        return _decode_reset(event).to_error(), 0
    return _record_from_json(orjson.loads(event.data)), int(event.id or 0)


def decode_item(event: ServerSentEvent) -> Numbered[Item]:
    """Return the record, delta or gap of an event, and the number that follows from it."""
    plain = orjson.loads(event.data)
    if event.name == "delta":
        return Delta(**{name: plain[name] for name in _DELTA_FIELDS}), None
    if event.name == "reset":
        return _decode_reset(event), 0
    if event.name == "gap":
        return Gap(plain["first"], plain["last"]), plain["last"]
    record = _record_from_json(plain)
    return record, record.seq


def _decode_reset(event: ServerSentEvent) -> Reset:
    return Reset(orjson.loads(event.data)["last"])


def _record_from_json(plain: Mapping[str, Any]) -> Record:
    # Not with `decode`: record kinds of a newer server are accepted.
    return Record(
        session_id=plain["session_id"],
        seq=plain["seq"],
        at=plain["at"],
        turn_id=plain["turn_id"],
        kind=plain["kind"],
        body=plain["body"],
    )
