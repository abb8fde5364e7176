"""One HTTP connection: hypercorn parses HTTP, this module bounds its reads, writes and lifetime.

Rule 1: every wait is bounded, except while an app handles a request. A client that sends no
        request is disconnected after `IDLE_SECONDS`, a client that does not read a response after
        `WRITE_SECONDS`.
Rule 2: a send is shielded from cancellation for at most `SHIELDED_SEND_SECONDS`. A send that is
        cancelled or times out after that has sent part of a message, so the connection is closed.
        (hypercorn's own server shields without a bound: one stalled reader blocks every shutdown.)
Rule 3: HTTP/1.1 only. A requested upgrade is not granted.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any, Final, TypeAlias

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Response
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
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

from supervisor.http_server.problems import RequestRefused, problem_of
from supervisor.http_server.response import SAFE_HEADERS, problem_response

IDLE_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 30.0
SHIELDED_SEND_SECONDS: Final = 0.5
MAX_HEADER_BYTES: Final = 16 * 1024
_READ_BYTES: Final = 65536
# Kernel send buffer of a streamed response, besides the buffer of its feed. It is small so that a
# stalled reader does not make us write everything it might have read.
STREAM_BUFFER_BYTES: Final = 32 * 1024
# A large response is sent in pieces of this size, each with its own timeout.
_PIECE_BYTES: Final = 65536

_VERSIONS: Final = (b"1.0", b"1.1")
Respond: TypeAlias = Callable[[ASGISendEvent | None], Awaitable[None]]
_DISCONNECTED: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class HttpConnection:
    """One accepted connection; `run` returns when it is closed."""

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
        # The deadline is set while no request is handled, and removed while one is.
        self._reading = trio.CancelScope()
        self._is_idle = True
        self._is_closing = False
        self._protocol: _Http1Protocol | None = None

    async def run(self) -> None:
        """Serve requests until either side closes the connection."""
        connection = self._stream.socket
        try:
            client = parse_socket_addr(connection.family, connection.getpeername())
            server = parse_socket_addr(connection.family, connection.getsockname())
        except OSError:
            return  # the peer disconnected before its address was read
        async with _RequestTasks(self._is_disconnected, self._shrink_send_buffer) as requests:
            self._protocol = _Http1Protocol(
                self._app,
                self._config,
                self._context,
                requests,
                ConnectionState(self._state),
                False,  # noqa: FBT003 - hypercorn's positional parameter `tls`
                client,
                server,
                self._handle_protocol_event,
            )
            self._set_idle(idle=True)
            await self._read()

    def close_when_idle(self) -> None:
        """Close the connection when no request is handled: now, or after the current response."""
        self._is_closing = True
        if self._is_idle:
            self._reading.cancel()

    def abort(self) -> None:
        """Close the connection now, also in the middle of a request."""
        self._stream.socket.close()

    def _shrink_send_buffer(self) -> None:
        """Limit the send buffer, because the response is streamed."""
        with contextlib.suppress(OSError):
            self._stream.socket.setsockopt(SOL_SOCKET, SO_SNDBUF, STREAM_BUFFER_BYTES)

    def _is_disconnected(self) -> bool:
        return self._stream.socket.fileno() < 0

    async def _read(self) -> None:
        assert self._protocol is not None
        with self._reading:
            while True:
                try:
                    data = await self._stream.receive_some(_READ_BYTES)
                except _DISCONNECTED:
                    break
                await self._protocol.handle(RawData(bytes(data)))
                if not data:
                    break
        if self._reading.cancelled_caught:
            self.abort()
        await self._protocol.handle(Closed())

    async def _handle_protocol_event(self, event: Event) -> None:
        """Perform an event of the protocol: send data, close, or update the idle state."""
        assert self._protocol is not None
        if isinstance(event, RawData):
            try:
                async with self._sending:
                    await self._send(event.data)
            except _DISCONNECTED:
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
            # A reader that keeps up gets the whole chunk even while the app is being cancelled,
            # so its stream ends with a complete message.
            with trio.move_on_after(SHIELDED_SEND_SECONDS, shield=True):
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
        with contextlib.suppress(*_DISCONNECTED, trio.BusyResourceError):
            await self._stream.send_eof()
        self.abort()

    def _set_idle(self, *, idle: bool) -> None:
        self._is_idle = idle
        if idle and self._is_closing:
            self._reading.cancel()
        self._reading.deadline = trio.current_time() + IDLE_SECONDS if idle else math.inf


class _Http1Protocol(H11Protocol):
    """hypercorn's HTTP/1.1 protocol with three private methods overridden.

    hypercorn has no setting for any of the three.
    `_check_protocol`: never switch to h2c or websocket (rule 3).
    `_create_stream`: refuse requests with an ambiguous length, and drop `Upgrade` headers.
    `_send_error_response`: answer malformed requests with problem+json and the security headers.
    tests/daemon/test_connections.py fails if hypercorn renames one, changes its parameters, or
    no longer calls it.
    """

    async def _check_protocol(self, event: h11.Request) -> None:
        pass

    async def _create_stream(self, request: h11.Request) -> None:
        names = {name for name, _ in request.headers}
        # Two lengths: a proxy that reads the other one would see a smuggled second request.
        is_clear = not names >= {b"transfer-encoding", b"content-length"}
        if request.http_version not in _VERSIONS or not is_clear:
            await self._send_error_response(HTTPStatus.BAD_REQUEST)
            await self.send(Closed())
            return
        if b"upgrade" in names:
            headers = [header for header in request.headers if header[0] != b"upgrade"]
            request = h11.Request(
                method=request.method,
                target=request.target,
                headers=headers,
                http_version=request.http_version,
            )
        await super()._create_stream(request)

    async def _send_error_response(self, status_code: int) -> None:
        is_large = status_code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        answer = _TOO_LARGE if is_large else _MALFORMED
        headers = [
            *SAFE_HEADERS,
            (b"content-type", answer.media_type.encode()),
            (b"content-length", b"%d" % len(answer.content)),
            (b"connection", b"close"),
        ]
        await self.stream_send(Response(STREAM_ID, headers=headers, status_code=answer.status))
        await self.stream_send(Body(STREAM_ID, data=answer.content))
        await self.stream_send(EndBody(STREAM_ID))


_MALFORMED: Final = problem_response(
    problem_of(RequestRefused("bad_http", "malformed HTTP/1.1 request", hint="send HTTP/1.1"))
)
_TOO_LARGE: Final = problem_response(
    problem_of(
        RequestRefused(
            "headers_too_large",
            f"the headers are larger than {MAX_HEADER_BYTES} bytes",
            hint="send fewer or shorter headers",
        )
    )
)


class PeerDisconnected(OSError):
    """The client has disconnected, so the response cannot be sent."""


class _RequestTasks(TaskGroup):
    """hypercorn's task group, with two guarantees that its `spawn_app` does not have.

    An app that has returned, or sent its whole response, no longer receives a body: otherwise the
    unread rest of it would block the connection forever. An app that streams to a disconnected
    client gets `PeerDisconnected`: otherwise an app that only sends would never end.
    tests/daemon/test_connections.py checks both.
    """

    def __init__(self, is_disconnected: Callable[[], bool], on_stream: Callable[[], None]) -> None:
        super().__init__()
        self._is_disconnected = is_disconnected
        self._on_stream = on_stream

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Scope, send: Respond
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Run the app on a request and return the function that passes it body messages."""
        incoming = _IncomingMessages(config.max_app_queue_size)
        self.spawn(self._run, app, config, scope, incoming, send)
        return incoming.put

    async def _run(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        incoming: _IncomingMessages,
        send: Respond,
    ) -> None:
        is_stream = False

        async def respond(message: ASGISendEvent) -> None:
            nonlocal is_stream
            # Only a streaming app has to be stopped; another one ends by itself.
            if message.get("more_body"):
                if self._is_disconnected():
                    raise PeerDisconnected
                if not is_stream:
                    is_stream = True
                    self._on_stream()
            elif message["type"] == "http.response.body":
                incoming.drop_body()
            await send(message)

        with incoming.inside:
            try:
                await app(scope, incoming.inside.receive, respond, _no_threads, _no_threads)
            except Exception:  # noqa: BLE001 - fails this request only, and is logged
                if not self._is_disconnected():
                    await config.log.exception("app raised")
        await send(None)


class _IncomingMessages:
    """The bounded queue of messages from one request to its app."""

    def __init__(self, size: int) -> None:
        self._outside, self.inside = trio.open_memory_channel[ASGIReceiveEvent](size)
        self._drops_body = False

    async def put(self, message: ASGIReceiveEvent) -> None:
        """Pass a message to the app; wait while the queue is full."""
        if self._drops_body and message["type"] == "http.request":
            return
        with contextlib.suppress(trio.BrokenResourceError):
            await self._outside.send(message)

    def drop_body(self) -> None:
        """Drop the unread body, now and from now on: before the last message of the response.

        With that message hypercorn puts a disconnect; in a full queue it would wait for the app,
        which waits until the message is sent.
        """
        self._drops_body = True
        has_disconnected = False
        with contextlib.suppress(trio.WouldBlock):
            while True:
                message = self.inside.receive_nowait()
                has_disconnected = has_disconnected or message["type"] == "http.disconnect"
        if has_disconnected:
            self._outside.send_nowait({"type": "http.disconnect"})


def _no_threads(*_: object) -> None:
    raise NotImplementedError("apps of this server do not use its threads")
