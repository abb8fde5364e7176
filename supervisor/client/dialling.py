"""Connecting to a socket at which others stand in line.

A unix socket whose line is full refuses at once, in a way that looks like success to trio: the
connection breaks at the first word. So it is looked at, and tried again, for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

T = TypeVar("T")

# For how long a place in the line is tried for; nothing was asked before there is one.
LINE_SECONDS: Final = 10.0
_FIRST_PAUSE_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 0.25


class Crowded(Exception):
    """Somebody listens, and takes nobody in: too many want to."""


async def dial_unix(path: str) -> trio.SocketStream:
    """A connection; raises `OSError` if nobody listens there, `Crowded` if nobody is let in."""

    async def connect() -> trio.SocketStream:
        return await trio.open_unix_socket(path)

    return await patiently(connect, lambda stream: stream.socket)


async def patiently(
    connect: Callable[[], Awaitable[T]], socket_of: Callable[[T], trio.socket.SocketType]
) -> T:
    """Connect, again and again while the line is full; raises `Crowded` if it stays so."""
    tried_until, pause = trio.current_time() + LINE_SECONDS, _FIRST_PAUSE_SECONDS
    while True:
        made = await connect()
        if _is_connected(socket_of(made)):
            return made
        socket_of(made).close()
        if trio.current_time() >= tried_until:
            raise Crowded
        await trio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _is_connected(socket: trio.socket.SocketType) -> bool:
    try:
        socket.getpeername()
    except OSError:
        return False
    return True
