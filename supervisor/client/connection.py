"""Connecting to the daemon, on trio.

When the listen queue of a unix socket is full, trio reports success: the connection breaks when it
is first used. So each new connection is checked, and connecting is retried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from .address import LOOPBACK, Address, retry_pauses
from .http_client import Unreachable

T = TypeVar("T")


async def connect_to(address: Address) -> trio.SocketStream:
    """Return a connection.

    Raise `Unreachable` if it is refused, `ListenQueueFull` if the queue is full.
    """

    async def connect() -> trio.SocketStream:
        if address.socket is not None:
            return await trio.open_unix_socket(address.socket)
        assert address.port is not None
        return await trio.open_tcp_stream(LOOPBACK, address.port)

    try:
        return await connect_with_retry(connect, lambda stream: stream.socket)
    except OSError as error:
        raise Unreachable from error


async def connect_with_retry(
    connect: Callable[[], Awaitable[T]], socket_of: Callable[[T], trio.socket.SocketType]
) -> T:
    """Connect, and retry while the listen queue is full.

    Raise `ListenQueueFull` if it stays full.
    """
    pauses = retry_pauses(trio.current_time)
    while True:
        made = await connect()
        if _is_connected(socket_of(made)):
            return made
        socket_of(made).close()
        await trio.sleep(next(pauses))


def _is_connected(socket: trio.socket.SocketType) -> bool:
    try:
        socket.getpeername()
    except OSError:
        return False
    return True
