"""Feeds of another process: the same items, over breaks of the line and restarts of the daemon.

Rule 1: giving up a wait loses nothing.
Rule 2: whatever broke, it goes on after the last number that has come: each record once, in order.
        What the server had to leave out is a `Gap`, as it is for everybody.
Rule 3: while nobody listens it tries again, for `RETURN_SECONDS`; then it says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
import orjson
import trio

from supervisor.api.wire import error_of
from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.core.records import Record
from supervisor.sessions.shell.feed import Delta, Gap, Item

from .dialling import Crowded
from .errors import AnswerLost, DaemonBusy, NoDaemon
from .line import Line, as_query, error_from
from .sse import Event, Parser, TooLong
from .stream import Broken, Stream, Unreachable, open_stream

T = TypeVar("T")
F = TypeVar("F", bound="Following[Any]")

# How long a daemon may be away.
RETURN_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 2.0
_NO_CONTENT: Final = 204
_ERRORS: Final = 400
# What a daemon says that comes or goes; another one may say something else in a moment.
_PASSING: Final = frozenset(
    {NoDaemon.code, DaemonBusy.code, AnswerLost.code, "draining", "not_ready"}
)

# An item, and what to go on after once it has come (None: as before).
Numbered: TypeAlias = tuple[T, int | None]


class Following(Generic[T]):
    """A stream that is followed: `async for` gives what comes."""

    def __init__(
        self, line: Line, path: str, query: Mapping[str, Any], read: Callable[[Event], Numbered[T]]
    ) -> None:
        self._line = line
        self._path = path
        self._query = query
        self._read = read
        self._reading = trio.Lock()
        self._stream: Stream | None = None
        self._parser = Parser()
        self._ready: deque[Numbered[T]] = deque()
        self._error: SupervisorError | None = None
        self._ended = False
        self._pause = _FIRST_PAUSE_SECONDS
        self._away_since: float | None = None
        # The last number that has come, and the last that somebody was given.
        self._received: int = query["after"]
        self.given: int = query["after"]

    def __aiter__(self) -> Following[T]:
        return self

    async def __anext__(self) -> T:
        # Whoever reads it with several tasks gets each item once, in one of them.
        async with self._reading:
            while not self._ready:
                if self._error is not None:
                    raise self._error
                if self._ended or self._line.is_closed:
                    raise StopAsyncIteration
                await self._fill()
            item, number = self._ready.popleft()
            self.given = self.given if number is None else number
            return item

    async def begin(self) -> None:
        """Open it; raises if there is no such stream."""
        self._line.refuse_if_closed()
        await self._open()

    def end(self) -> None:
        """Nobody wants any more."""
        self._ended = True
        self._hang_up()

    # Reading ------------------------------------------------------------------------------

    async def _fill(self) -> None:
        """Have something ready, or a little more of a reason why not."""
        if self._stream is None:
            await self._return()
            return
        try:
            chunk = await self._stream.receive()
        except Broken:
            chunk = None
        if chunk is None:
            self._hang_up()
            return
        try:
            for event in self._parser.feed(chunk):
                self._take(event)
        except TooLong:
            self._error = AnswerLost(
                "the server sends something else than events",
                hint="is it another version? `understudy version` says which this is",
            )

    def _take(self, event: Event) -> None:
        if event.name == "problem":
            error = error_of(orjson.loads(event.data), status=503)
            self._error = None if error.code in _PASSING else error
            return
        item, number = self._read(event)
        self._ready.append((item, number))
        if number is not None:
            self._received = number
            self._pause = _FIRST_PAUSE_SECONDS

    async def _return(self) -> None:
        """Try to go on where the last stream broke."""
        await trio.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        try:
            await self._open()
        except SessionNotFound:
            self._ended = True  # it was deleted: nothing can follow
        except SupervisorError as error:
            now = trio.current_time()
            self._away_since = now if self._away_since is None else self._away_since
            if error.code not in _PASSING or now - self._away_since > RETURN_SECONDS:
                raise
        else:
            self._away_since = None

    async def _open(self) -> None:
        headers = {"accept": "text/event-stream"}
        if self._received:
            headers["last-event-id"] = str(self._received)
        try:
            stream = await open_stream(
                self._line.address, self._path, as_query(self._query), headers
            )
        except Crowded:
            raise self._line.line_is_full() from None
        except Unreachable:
            raise self._line.nobody_there() from None
        except Broken:
            raise self._line.answer_lost() from None
        if stream.status == _NO_CONTENT:
            self._ended = True
        elif stream.status >= _ERRORS:
            try:
                raise error_from(await stream.rest(), status=stream.status)
            except Broken:
                raise self._line.answer_lost() from None
            finally:
                stream.close()
        self._stream, self._parser = stream, Parser()

    def _hang_up(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


@asynccontextmanager
async def following(feed: F) -> AsyncIterator[F]:
    """Follow a stream while the block runs; raises if there is no such stream."""
    try:
        await feed.begin()
        yield feed
    finally:
        feed.end()


class RemoteWatcher(Following[Item]):
    """What happens in one session; see `supervisor.Watcher`."""

    def __init__(self, line: Line, path: str, query: Mapping[str, Any]) -> None:
        super().__init__(line, path, query, _item)


class RemoteEverything(Following[Record]):
    """What happens in all sessions; see `supervisor.Everything`."""

    def __init__(self, line: Line, path: str, query: Mapping[str, Any]) -> None:
        super().__init__(line, path, query, _record)

    @property
    def position(self) -> int:
        """That of the last record it gave: begin after it to go on from there."""
        return self.given


_DELTA: Final = tuple(field.name for field in attrs.fields(Delta))


def _record(event: Event) -> Numbered[Record]:
    return _record_of(orjson.loads(event.data)), int(event.id or 0)


def _item(event: Event) -> Numbered[Item]:
    plain = orjson.loads(event.data)
    if event.name == "delta":
        return Delta(**{name: plain[name] for name in _DELTA}), None
    if event.name == "gap":
        return Gap(plain["first"], plain["last"]), plain["last"]
    record = _record_of(plain)
    return record, record.seq


def _record_of(plain: Mapping[str, Any]) -> Record:
    # Not by `decode`: kinds that are not known here are records all the same.
    return Record(
        session_id=plain["session_id"],
        seq=plain["seq"],
        at=plain["at"],
        turn_id=plain["turn_id"],
        kind=plain["kind"],
        body=plain["body"],
    )
