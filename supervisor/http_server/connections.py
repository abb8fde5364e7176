"""All HTTP connections: their number, their tasks and their end.

Rule 1: an error on one connection ends only that connection.
Rule 2: a connection above the limit gets a 503 response at once, instead of waiting.
Rule 3: a lack of descriptors is logged in one line, and ends nothing.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from starlette.types import ASGIApp
from trio_util import AsyncValue

from .connection import MAX_HEADER_BYTES, HttpConnection
from .peer import PEER_GUARDIANS, has_peer_credentials, peer_guardians, peer_uid

logger = logging.getLogger("supervisor.http")

# Time that running requests have to finish after close() is called.
CLOSE_SECONDS: Final = 5.0
# Errors of an accept that pass: no descriptors, or no memory in the kernel.
_NO_CAPACITY: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_NO_CAPACITY_SECONDS: Final = 0.1
_CAPACITY_LOG_SECONDS: Final = 60.0
# More are closed without a response: waiting for their clients would use up descriptors.
_MAX_REFUSING: Final = 32
_REFUSAL_BODY: Final = (
    b'{"type":"urn:understudy:problem:too_many_connections","title":"Too many connections",'
    b'"status":503,"detail":"the server has reached its maximum number of connections",'
    b'"code":"too_many_connections","hint":"close some, or raise %b","retry_after_seconds":1}'
)
_REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
    b"retry-after: 1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
)
# What limits the connections: the setting, or what the process may open.
BY_SETTING: Final = "daemon.max_connections"
BY_DESCRIPTORS: Final = "the limit of open files (ulimit -n)"


class Connections:
    """The connections of all listeners; created by `open_connections`."""

    def __init__(
        self, nursery: trio.Nursery, *, max_connections: int, limited: str, peer_state_key: str
    ) -> None:
        self._nursery = nursery
        self._max_connections = max_connections
        body = _REFUSAL_BODY % limited.encode()
        self._refusal = _REFUSAL % (len(body), body)
        self._peer_state_key = peer_state_key
        # Invariant: the connections between accept and close.
        self._open: set[HttpConnection] = set()
        # Invariant: len(self._open).
        self._open_count = AsyncValue(0)
        # Open connections by address family. Each family has its own limit: every user of the
        # machine can reach the port, and must not be able to lock the owner out of the socket.
        self._by_family: Counter[int] = Counter()
        self._config = _config()
        self._context = WorkerContext(None)
        # One scope for each listener in use.
        self._listening: list[trio.CancelScope] = []
        # Connections that are being refused; each has a descriptor.
        self._refusing = 0
        # A lack of descriptors is not logged before this time.
        self._next_capacity_log = -math.inf
        # Totals since start.
        self.accepted = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._open)

    async def listen(self, listener: socket.socket, app: ASGIApp) -> None:
        """Start to serve the app on a listening socket; return at once."""
        listener.settimeout(0.0)
        trio_listener = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        self._nursery.start_soon(self._accept, trio_listener, app)
        await trio.lowlevel.checkpoint()

    async def close(self, *, within_seconds: float = CLOSE_SECONDS) -> None:
        """Stop accepting, let requests finish within `within_seconds`, then close everything."""
        for scope in self._listening:
            scope.cancel()
        await self._context.terminated.set()
        for connection in list(self._open):
            connection.close_when_idle()
        with trio.move_on_after(within_seconds):
            await self._open_count.wait_value(0)
        for connection in list(self._open):
            connection.abort()
        self._nursery.cancel_scope.cancel(reason="the server has closed")

    async def _accept(self, listener: trio.SocketListener, app: ASGIApp) -> None:
        handle = partial(self._handle, ASGIWrapper(app))  # type: ignore[arg-type] # Starlette's type for the same protocol
        with trio.CancelScope() as scope:
            self._listening.append(scope)
            async with listener:
                while True:
                    stream = await self._accept_one(listener)
                    self._nursery.start_soon(handle, stream)

    async def _accept_one(self, listener: trio.SocketListener) -> trio.SocketStream:
        """Return the next connection; wait while the process can open no more descriptors.

        Not `trio.serve_listeners`, which logs a traceback ten times a second meanwhile.
        """
        while True:
            try:
                return await listener.accept()
            except OSError as error:
                if error.errno not in _NO_CAPACITY:
                    raise
                self._log_no_capacity(error)
                await trio.sleep(_NO_CAPACITY_SECONDS)

    def _log_no_capacity(self, error: OSError) -> None:
        now = trio.current_time()
        if now >= self._next_capacity_log:
            self._next_capacity_log = now + _CAPACITY_LOG_SECONDS
            logger.error("connections wait: %s (%d are open)", error.strerror, len(self._open))

    async def _handle(self, app: ASGIWrapper, stream: trio.SocketStream) -> None:
        family = int(stream.socket.family)
        if self._by_family[family] >= self._max_connections:
            await self._refuse(stream)
            return
        connection = HttpConnection(stream, app, self._config, self._context, self._state(stream))
        self._open.add(connection)
        self._open_count.value = len(self._open)
        self._by_family[family] += 1
        self.accepted += 1
        try:
            await connection.run()
        except Exception:
            logger.exception("connection failed")
        finally:
            self._open.discard(connection)
            self._by_family[family] -= 1
            connection.abort()
            self._open_count.value = len(self._open)

    def _state(self, stream: trio.SocketStream) -> dict[str, Any]:
        if stream.socket.family != socket.AF_UNIX:
            return {}
        connection: Any = stream.socket  # trio's socket has getsockopt too
        with contextlib.suppress(OSError):
            state: dict[str, Any] = {self._peer_state_key: peer_uid(connection)}
            if has_peer_credentials():
                state[PEER_GUARDIANS] = peer_guardians(connection)
            return state
        return {}

    async def _refuse(self, stream: trio.SocketStream) -> None:
        self.refused += 1
        if self._refusing >= _MAX_REFUSING:
            stream.socket.close()
            return
        self._refusing += 1
        with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(1.0):
            await stream.send_all(self._refusal)
        self._refusing -= 1
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def open_connections(
    *, max_connections: int, peer_state_key: str, limited: str = BY_SETTING
) -> AsyncIterator[Connections]:
    """Yield the connections of this block; all are closed at its end.

    On a unix socket, the scope's state has the peer's uid under `peer_state_key`, and the guardians
    above the peer. `limited` tells a refused client what sets the maximum.
    """
    async with trio.open_nursery() as nursery:
        connections = Connections(
            nursery,
            max_connections=max_connections,
            limited=limited,
            peer_state_key=peer_state_key,
        )
        try:
            yield connections
        finally:
            with trio.CancelScope(shield=True):  # bounded: within_seconds is 0
                await connections.close(within_seconds=0.0)


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = logger
    config.include_server_header = False
    config.h11_max_incomplete_size = MAX_HEADER_BYTES
    config.websocket_max_message_size = 1
    return config
