"""All connections: how many there may be, who looks after them, and how they end.

Rule 1: what goes wrong on one connection ends that one.
Rule 2: who comes when there are too many already hears so, and does not wait in the dark.
"""

from __future__ import annotations

import contextlib
import logging
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

from .connection import Connection
from .sockets import peer_uid

logger = logging.getLogger("supervisor.http")

MAX_HEADER_BYTES: Final = 16 * 1024
# How long an app may be at work on after its connection is to close.
CLOSE_SECONDS: Final = 5.0
_FULL: Final = (
    b'{"type":"urn:understudy:problem:too_many_connections","title":"Too many connections",'
    b'"status":503,"detail":"the server has as many connections as it may",'
    b'"code":"too_many_connections","hint":"close some, or raise daemon.max_connections",'
    b'"retry_after_seconds":1}'
)
_REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
    b"retry-after: 1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
)


class Connections:
    """Those of all listeners; made by `open_connections`."""

    def __init__(self, nursery: trio.Nursery, *, most: int, peer_name: str) -> None:
        self._nursery = nursery
        self._most = most
        self._peer_name = peer_name
        # Invariant: exactly those that are between accept and their end.
        self._open: set[Connection] = set()
        # How many of them by their way in: whoever fills the one does not fill the other, for a
        # port can be reached by everybody on the machine, and the socket only by its owner.
        self._by_way: Counter[int] = Counter()
        self._config = _config()
        self._context = WorkerContext(None)
        # One for each listener that is listened on.
        self._listening: list[trio.CancelScope] = []
        self._over = trio.Event()
        # How many there were in all: taken, and turned away.
        self.taken = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._open)

    async def listen(self, listener: socket.socket, app: ASGIApp) -> None:
        """Serve the app to whoever connects; returns at once, and it goes on."""
        listener.settimeout(0.0)
        ours = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        self._nursery.start_soon(self._accept, ours, app)
        await trio.lowlevel.checkpoint()

    async def close(self, *, within_seconds: float = CLOSE_SECONDS) -> None:
        """Take no more, let those finish that are at work, and then close all; always in time."""
        for scope in self._listening:
            scope.cancel()
        await self._context.terminated.set()
        for connection in list(self._open):
            connection.leave()
        with trio.move_on_after(within_seconds):
            while self._open:
                self._over = trio.Event()
                await self._over.wait()
        for connection in list(self._open):
            connection.abort()
        self._nursery.cancel_scope.cancel(reason="the server has closed")

    async def _accept(self, listener: trio.SocketListener, app: ASGIApp) -> None:
        handle = partial(self._handle, ASGIWrapper(app))  # type: ignore[arg-type] # Starlette's type of the same thing
        with trio.CancelScope() as scope:
            self._listening.append(scope)
            await trio.serve_listeners(handle, [listener], handler_nursery=self._nursery)

    async def _handle(self, app: ASGIWrapper, stream: trio.SocketStream) -> None:
        way = int(stream.socket.family)
        if self._by_way[way] >= self._most:
            await self._refuse(stream)
            return
        connection = Connection(stream, app, self._config, self._context, self._state(stream))
        self._open.add(connection)
        self._by_way[way] += 1
        self.taken += 1
        try:
            await connection.run()
        except Exception:
            logger.exception("a connection has failed")
        finally:
            self._open.discard(connection)
            self._by_way[way] -= 1
            connection.abort()
            if not self._open:
                self._over.set()

    def _state(self, stream: trio.SocketStream) -> dict[str, Any]:
        if stream.socket.family != socket.AF_UNIX:
            return {}
        with contextlib.suppress(OSError):
            return {self._peer_name: peer_uid(stream.socket)}  # type: ignore[arg-type] # trio's has the method too
        return {}

    async def _refuse(self, stream: trio.SocketStream) -> None:
        self.refused += 1
        with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(1.0):
            await stream.send_all(_REFUSAL)
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def open_connections(*, most: int, peer_name: str) -> AsyncIterator[Connections]:
    """Somebody who looks after connections; leaving the block closes them all.

    `peer_name` is where in the scope's state an app finds who asks on a unix socket.
    """
    async with trio.open_nursery() as nursery:
        connections = Connections(nursery, most=most, peer_name=peer_name)
        try:
            yield connections
        finally:
            with trio.CancelScope(shield=True):  # bounded by itself
                await connections.close(within_seconds=0.0)


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = logger
    config.include_server_header = False
    config.h11_max_incomplete_size = MAX_HEADER_BYTES
    config.websocket_max_message_size = 1
    return config
