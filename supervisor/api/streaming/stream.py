"""One stream: events for as long as there are any, to a reader who may be slow, or gone.

Rule 1: nothing is kept for a reader but what its feed keeps, which is bounded and slows nobody.
Rule 2: one that takes nothing for `WRITE_SECONDS` is let go; one that hangs up, at once.
Rule 3: a chunk costs more than what is in it, and many may watch: who is told much gets a few at
        once, and after that one at a time with all that has come since, the more seldom the more
        streams there are. One stream alone is hardly held up.
Rule 4: once the first byte is out, the answer is a stream: what goes wrong is its last event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, TypeAlias

import trio
from starlette.types import Receive, Scope, Send

from supervisor.api.answering.responses import SAFE_HEADERS
from supervisor.api.describing.operations import Stream
from supervisor.api.doors import Doors
from supervisor.api.wire.problems import problem_of
from supervisor.core.errors import SupervisorError

from .events import BEGINNING, CHUNK_BYTES, KEEPALIVE, event_of_problem

KEEPALIVE_SECONDS: Final = 15.0
WRITE_SECONDS: Final = 30.0
# Between two chunks of a stream: so long for each stream that there is, and never longer than that.
SHARE_SECONDS: Final = 0.0001
PACE_SECONDS: Final = 0.01
BURST: Final = 16

# Opens the feed; raises before anything was sent if there is none. What comes out is sent as it is.
Source: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncIterator[bytes]]]


class _Lost(Exception):
    """The reader takes nothing, or is gone."""


class EventStream(Stream):
    """An answer of server-sent events."""

    def __init__(self, source: Source, doors: Doors) -> None:
        self._source = source
        self._doors = doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Stream until the source ends, the reader is gone or stalls, or the doors close."""
        writing = _Writing(send)
        with self._doors.until_closed() as scope_of_stream:
            async with self._source() as chunks, trio.open_nursery() as nursery:
                nursery.start_soon(_wait_gone, receive, writing, scope_of_stream)
                await _pump(chunks, writing, _Pace(self._doors))
                nursery.cancel_scope.cancel()
        if not writing.is_over:
            await writing.end()


class _Writing:
    """The sending half, with its patience."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_over = False  # nobody reads any more

    async def begin(self) -> None:
        headers = [*SAFE_HEADERS, (b"content-type", b"text/event-stream; charset=utf-8")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.write(BEGINNING)

    async def write(self, chunk: bytes) -> None:
        try:
            with trio.fail_after(WRITE_SECONDS):
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        except (OSError, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError):
            self.is_over = True
            raise _Lost from None

    async def end(self) -> None:
        with trio.move_on_after(WRITE_SECONDS, shield=True):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_gone(receive: Receive, writing: _Writing, stream: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    writing.is_over = True
    stream.cancel()


class _Pace:
    """When the next chunk may go: at once, unless there were too many lately."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        # When all that went would have gone, one after the other.
        self._due = 0.0

    async def wait(self) -> None:
        """Count one, and wait as long as that is too early."""
        now = trio.current_time()
        pause = min(PACE_SECONDS, self._doors.streams * SHARE_SECONDS)
        self._due = max(self._due, now) + pause
        too_early = self._due - now - BURST * pause
        if too_early > 0:
            await trio.sleep(too_early)


async def _pump(chunks: AsyncIterator[bytes], writing: _Writing, pace: _Pace) -> None:
    with suppress(_Lost):
        try:
            await writing.begin()
            while True:
                chunk = KEEPALIVE
                with trio.move_on_after(KEEPALIVE_SECONDS):
                    chunk = await anext(chunks)
                await writing.write(chunk)
                if len(chunk) < CHUNK_BYTES:  # else there is more already
                    await pace.wait()
        except StopAsyncIteration:
            return
        except SupervisorError as error:
            await writing.write(event_of_problem(problem_of(error)))
