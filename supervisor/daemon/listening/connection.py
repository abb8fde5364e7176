"""One connection: hypercorn speaks HTTP on it, and this looks after its bytes and its time.

Rule 1: every wait is bounded, but for an app that is at work. Who sends no request is let go after
        `IDLE_SECONDS`; who takes nothing of an answer, after `WRITE_SECONDS`.
Rule 2: a send is shielded for `PROMPT_SECONDS` and no longer. One that is cancelled after that, or
        too slow, has left half a message behind, and so ends the connection. (hypercorn's own
        server shields without a bound: one reader that stands still outlives every shutdown.)
Rule 3: HTTP/1.1 and nothing else. An upgrade that a client asks for is not granted.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any, Final, TypeAlias

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    AppWrapper,
    ASGIReceiveEvent,
    ASGISendEvent,
    ConnectionState,
    Scope,
)
from hypercorn.utils import parse_socket_addr

from supervisor.api.answering.responses import SAFE_HEADERS, problem_response
from supervisor.api.wire.problems import RequestRefused, problem_of

IDLE_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 30.0
PROMPT_SECONDS: Final = 0.5
_READ_BYTES: Final = 65536
# What the system keeps for the reader of an answer that goes on, beyond what its feed keeps: one
# that stands still must not cost us the writing of all that it might have had.
STREAM_BUFFER_BYTES: Final = 32 * 1024
# A large answer goes out in pieces of this size, each with its own patience.
_PIECE_BYTES: Final = 65536

_VERSIONS: Final = (b"1.0", b"1.1")
Respond: TypeAlias = Callable[[ASGISendEvent | None], Awaitable[None]]
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class Connection:
    """Made for each stream that was accepted; `run` returns when it is over."""

    def __init__(
        self,
        stream: trio.SocketStream,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        state: dict[str, Any],
    ) -> None:
        self._stream = stream
        self._app = app
        self._config = config
        self._context = context
        self._state = state
        self._sending = trio.Lock()
        # Its deadline is set while no request is at work, and moved by whoever ends one.
        self._reading = trio.CancelScope()
        self._is_idle = True
        self._is_leaving = False
        self._protocol: _Http1 | None = None

    async def run(self) -> None:
        """Answer requests until somebody hangs up."""
        connection = self._stream.socket
        try:
            client = parse_socket_addr(connection.family, connection.getpeername())
            server = parse_socket_addr(connection.family, connection.getsockname())
        except OSError:
            return  # whoever it was has gone before we could ask who
        async with _Requests(self._is_gone, self._keep_little) as requests:
            self._protocol = _Http1(
                self._app,
                self._config,
                self._context,
                requests,
                ConnectionState(self._state),
                False,  # noqa: FBT003 - hypercorn's: no TLS
                client,
                server,
                self._take,
            )
            self._set_idle(idle=True)
            await self._read()

    def leave(self) -> None:
        """Close it once no request is at work on it: now, or after the answer to the last."""
        self._is_leaving = True
        if self._is_idle:
            self._reading.cancel()

    def abort(self) -> None:
        """Close it now, whoever is in the middle of what."""
        self._stream.socket.close()

    def _keep_little(self) -> None:
        """The answer is one that goes on."""
        with contextlib.suppress(OSError):
            self._stream.socket.setsockopt(SOL_SOCKET, SO_SNDBUF, STREAM_BUFFER_BYTES)

    def _is_gone(self) -> bool:
        return self._stream.socket.fileno() < 0

    async def _read(self) -> None:
        assert self._protocol is not None
        with self._reading:
            while True:
                try:
                    data = await self._stream.receive_some(_READ_BYTES)
                except _GONE:
                    break
                await self._protocol.handle(RawData(bytes(data)))
                if not data:
                    break
        if self._reading.cancelled_caught:
            self.abort()
        await self._protocol.handle(Closed())

    async def _take(self, event: Event) -> None:
        """What the protocol wants done."""
        assert self._protocol is not None
        if isinstance(event, RawData):
            try:
                async with self._sending:
                    await self._send(event.data)
            except _GONE:
                await self._protocol.handle(Closed())
        elif isinstance(event, Closed):
            await self._close()
            await self._protocol.handle(Closed())
        elif isinstance(event, Updated):
            self._set_idle(idle=event.idle)

    async def _send(self, data: bytes) -> None:
        whole, sent = memoryview(data), 0

        async def send_some() -> None:
            nonlocal sent
            sent += await self._stream.socket.send(whole[sent : sent + _PIECE_BYTES])

        try:
            # What a reader takes at once goes out whole, also for an app that is being cancelled:
            # so its stream can end as streams do.
            with trio.move_on_after(PROMPT_SECONDS, shield=True):
                while sent < len(whole):
                    await send_some()
            while sent < len(whole):
                with trio.fail_after(WRITE_SECONDS):
                    await send_some()
        except (OSError, trio.TooSlowError):
            raise trio.BrokenResourceError from None
        finally:
            if sent < len(whole):
                self.abort()

    async def _close(self) -> None:
        with contextlib.suppress(*_GONE, trio.BusyResourceError):
            await self._stream.send_eof()
        self.abort()

    def _set_idle(self, *, idle: bool) -> None:
        self._is_idle = idle
        if idle and self._is_leaving:
            self._reading.cancel()
        self._reading.deadline = trio.current_time() + IDLE_SECONDS if idle else math.inf


class _Http1(H11Protocol):
    """hypercorn's, without the ways out of HTTP/1.1; what is no HTTP hears what it is instead."""

    async def _check_protocol(self, event: h11.Request) -> None:
        pass

    async def _create_stream(self, request: h11.Request) -> None:
        names = {name for name, _ in request.headers}
        # Two lengths: whoever reads it otherwise than we do sees other requests behind it.
        is_clear = not names >= {b"transfer-encoding", b"content-length"}
        if request.http_version not in _VERSIONS or not is_clear:
            await self._send_error_response(HTTPStatus.BAD_REQUEST)
            await self.send(Closed())
            return
        if b"upgrade" in names:
            headers = [one for one in request.headers if one[0] != b"upgrade"]
            request = h11.Request(
                method=request.method,
                target=request.target,
                headers=headers,
                http_version=request.http_version,
            )
        await super()._create_stream(request)

    async def _send_error_response(self, status_code: int) -> None:
        is_large = status_code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        answer = _TOO_LARGE if is_large else _NO_HTTP
        headers = [
            *SAFE_HEADERS,
            (b"content-type", answer.media_type.encode()),
            (b"content-length", b"%d" % len(answer.content)),
            (b"connection", b"close"),
        ]
        await self._send_h11_event(h11.Response(status_code=answer.status, headers=headers))
        await self._send_h11_event(h11.Data(data=answer.content))
        await self._send_h11_event(h11.EndOfMessage())


_NO_HTTP: Final = problem_response(
    problem_of(
        RequestRefused(
            "bad_http", "the request is no HTTP/1.1 that can be meant", hint="send HTTP/1.1"
        )
    )
)
_TOO_LARGE: Final = problem_response(
    problem_of(
        RequestRefused(
            "headers_too_large", "the headers are too large", hint="send fewer, or shorter ones"
        )
    )
)


class Gone(OSError):
    """Nobody is there any more who could be answered."""


class _Requests(TaskGroup):
    """hypercorn's, but an app that has ended takes nothing in, and one that nobody hears is told.

    For else the rest of a body that nobody reads is waited with for ever, and so is an app that
    looks at nothing but what it has to say.
    """

    def __init__(self, is_gone: Callable[[], bool], on_stream: Callable[[], None]) -> None:
        super().__init__()
        self._is_gone = is_gone
        self._on_stream = on_stream

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Scope, send: Respond
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Run the app on a request; gives where to put what comes in for it."""
        outside, inside = trio.open_memory_channel[ASGIReceiveEvent](config.max_app_queue_size)
        assert self._nursery is not None
        self._nursery.start_soon(self._run, app, config, scope, inside, send)
        return partial(_put, outside)

    async def _run(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        inside: trio.MemoryReceiveChannel[ASGIReceiveEvent],
        send: Respond,
    ) -> None:
        is_stream = False

        async def respond(message: ASGISendEvent) -> None:
            nonlocal is_stream
            # Whoever has more to say for ever has to be told; whoever is done is done.
            if message.get("more_body"):
                if self._is_gone():
                    raise Gone
                if not is_stream:
                    is_stream = True
                    self._on_stream()
            await send(message)

        with inside:
            try:
                await app(scope, inside.receive, respond, _no_threads, _no_threads)
            except Exception:  # noqa: BLE001 - ours, and this request's alone; it is logged
                if not self._is_gone():
                    await config.log.exception("an app has failed")
        await send(None)


async def _put(
    outside: trio.MemorySendChannel[ASGIReceiveEvent], message: ASGIReceiveEvent
) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        await outside.send(message)


def _no_threads(*_: object) -> None:
    raise NotImplementedError("an app here has no use for threads of the server's")
