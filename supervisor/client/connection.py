"""Connections to the daemon, on trio or asyncio.

A connection is a socket of the standard library; only the waits are the event loop's. So data is
read in one step behind the wait for it: a cancelled read loses none.

When the listen queue of a unix socket is full, a socket refuses to connect, and connecting is
retried. trio and asyncio would report success: the connection would break when it is first used.
"""

from __future__ import annotations

import errno
import os
import socket

from .address import LOOPBACK, Address, retry_pauses
from .event_loop import EventLoop, SocketClosed
from .http_client import ConnectionBroken, Unreachable
from .running_loop import running_loop


class Connection:
    """An open connection, created by `connect_to()`; the caller closes it."""

    def __init__(self, connected: socket.socket, loop: EventLoop) -> None:
        self._socket = connected
        self._loop = loop

    async def receive(self, max_bytes: int) -> bytes:
        """Return what has arrived, or nothing at the end; raise `ConnectionBroken`."""
        await self._loop.checkpoint()
        try:
            while True:
                try:
                    return self._socket.recv(max_bytes)
                except BlockingIOError:
                    await self._loop.wait_readable(self._socket)
        except (OSError, SocketClosed) as error:
            raise ConnectionBroken from error

    async def send_all(self, data: bytes) -> None:
        """Send the data; raise `ConnectionBroken`."""
        await self._loop.checkpoint()
        left = memoryview(data)
        try:
            while left:
                try:
                    left = left[self._socket.send(left) :]
                except BlockingIOError:
                    await self._loop.wait_writable(self._socket)
        except (OSError, SocketClosed) as error:
            raise ConnectionBroken from error

    def fileno(self) -> int:
        """Return the number of the descriptor, -1 if it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection; tasks that wait for it raise `ConnectionBroken`."""
        if self._socket.fileno() != -1:
            self._loop.notify_closing(self._socket)
            self._socket.close()


async def connect_to(address: Address) -> Connection:
    """Return a connection.

    Raise `Unreachable` if it is refused, `ListenQueueFull` if the queue stays full.
    """
    loop = running_loop()
    pauses = retry_pauses(loop.current_time)
    while True:
        made = socket.socket(socket.AF_INET if address.socket is None else socket.AF_UNIX)
        try:
            made.setblocking(False)  # noqa: FBT003 - the standard library's signature
            await _connect(made, address, loop)
        except BlockingIOError:  # the listen queue is full
            made.close()
            await loop.sleep(next(pauses))
        except OSError as error:
            made.close()
            raise Unreachable from error
        except BaseException:
            made.close()
            raise
        else:
            return Connection(made, loop)


async def _connect(made: socket.socket, address: Address, loop: EventLoop) -> None:
    await loop.checkpoint()
    if address.socket is not None:
        made.connect(address.socket)  # never pending: connected, refused, or the queue is full
        return
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pending = made.connect_ex((LOOPBACK, address.port))
    if pending == errno.EINPROGRESS:
        await loop.wait_writable(made)
        pending = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if pending:
        raise OSError(pending, os.strerror(pending))
