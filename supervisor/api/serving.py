"""The server: hypercorn, one connection at a time, under our own nursery.

hypercorn's own `serve` would do but for three things. It waits for a reader for ever, behind a
shield, so no app can give up on one; it lets the crash of one connection end all; and it tells
nobody who is at the other end of a unix socket.
"""

from __future__ import annotations

import functools
import logging
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from hypercorn.utils import wrap_app
from starlette.types import ASGIApp

from .gate import MAX_HEADER_BYTES, PEER_UID

logger = logging.getLogger("supervisor.api")

# For headers to arrive, and between two requests.
IDLE_SECONDS: Final = 15.0
# For a reader to take the next piece of an answer.
WRITE_SECONDS: Final = 30.0
MAX_CONNECTIONS: Final = 4_096
_PIECE_BYTES: Final = 64 * 1024
_MAX_LINE_BYTES: Final = 8 * 1024
_CREDENTIALS: Final = struct.Struct("3i")


async def serve(
    app: ASGIApp,
    listeners: Sequence[trio.SocketListener],
    *,
    stopping: trio.Event,
    graceful_seconds: float = 5.0,
    max_connections: int = MAX_CONNECTIONS,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer at these sockets until `stopping` is set; requests under way may end within a bound.

    Streams do not end by themselves: close the app's doors first. The listeners are closed.
    """
    server = _Server(app, max_connections=max_connections)
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            accepting.start_soon(
                functools.partial(
                    trio.serve_listeners,
                    server.attend,
                    list(listeners),
                    handler_nursery=connections,
                )
            )
            task_status.started()
            await stopping.wait()
            accepting.cancel_scope.cancel()
        await server.context.terminated.set()
        connections.cancel_scope.deadline = trio.current_time() + graceful_seconds


class _Server:
    """Attends to connections, each apart from all others."""

    def __init__(self, app: ASGIApp, *, max_connections: int) -> None:
        self.context = WorkerContext(None)
        self._app: AppWrapper = wrap_app(app, 0, "asgi")  # type: ignore[arg-type] # any ASGI app
        self._config = _config()
        self._max_connections = max_connections
        self._connections = 0

    async def attend(self, stream: trio.SocketStream) -> None:
        """One connection, from its beginning to its end."""
        if self._connections >= self._max_connections:
            await trio.aclose_forcefully(stream)
            logger.warning("refused a connection: %d are open", self._connections)
            return
        state = ConnectionState({PEER_UID: peer_uid(stream.socket)})
        patient: Any = PatientStream(stream)
        self._connections += 1
        try:
            await TCPServer(self._app, self._config, self.context, state, patient)
        except Exception:
            logger.exception("a connection has failed")
        finally:
            self._connections -= 1
            stream.socket.close()  # hypercorn has, unless it was cut short


class PatientStream:
    """A connection whose reader is waited for, but not for ever."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.socket = stream.socket

    async def send_all(self, data: bytes) -> None:
        """Send it; raises `trio.BrokenResourceError` if a piece is not taken within a bound."""
        for start in range(0, len(data), _PIECE_BYTES):
            with trio.move_on_after(WRITE_SECONDS) as patience:
                await self._stream.send_all(data[start : start + _PIECE_BYTES])
            if patience.cancelled_caught:
                await trio.aclose_forcefully(self._stream)
                raise trio.BrokenResourceError("the reader takes nothing")

    async def receive_some(self, max_bytes: int) -> bytes | bytearray:
        """What has come."""
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """Nothing more will be sent."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Hang up."""
        await self._stream.aclose()


def peer_uid(connection: trio.socket.SocketType) -> int | None:
    """The user id of whoever is at the other end of a unix socket, None if nobody can say."""
    if connection.family is not socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return None
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(said)[1])


def _config() -> Config:
    config = Config()
    config.include_server_header = False
    config.errorlog = logger
    config.accesslog = None
    config.keep_alive_timeout = IDLE_SECONDS
    config.h11_max_incomplete_size = MAX_HEADER_BYTES + _MAX_LINE_BYTES
    config.max_app_queue_size = 4
    return config
