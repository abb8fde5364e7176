"""The daemon's address, and connecting to it.

A unix socket whose listen queue is full refuses at once, and trio reports that as success: the
connection breaks when it is first used. So each new connection is checked, and connecting is
retried for `CONNECT_RETRY_SECONDS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import attrs
import trio

from supervisor.configuration import DaemonSettings, load
from supervisor.configuration.private_files import read_token
from supervisor.core.errors import ConfigError, short_repr

T = TypeVar("T")

# Time in which a full listen queue is retried. No request has been sent yet.
CONNECT_RETRY_SECONDS: Final = 10.0

_FIRST_PAUSE_SECONDS: Final = 0.005

_LONGEST_PAUSE_SECONDS: Final = 0.25


class ListenQueueFull(Exception):
    """The daemon listens, but its listen queue is full."""


async def connect_unix(path: str) -> trio.SocketStream:
    """Return a connection.

    Raise `OSError` if it is refused, `ListenQueueFull` if the queue is full.
    """

    async def connect() -> trio.SocketStream:
        return await trio.open_unix_socket(path)

    return await connect_with_retry(connect, lambda stream: stream.socket)


async def connect_with_retry(
    connect: Callable[[], Awaitable[T]], socket_of: Callable[[T], trio.socket.SocketType]
) -> T:
    """Connect, and retry while the listen queue is full.

    Raise `ListenQueueFull` if it is still full after `CONNECT_RETRY_SECONDS`.
    """
    retry_until, pause = trio.current_time() + CONNECT_RETRY_SECONDS, _FIRST_PAUSE_SECONDS
    while True:
        made = await connect()
        if _is_connected(socket_of(made)):
            return made
        socket_of(made).close()
        if trio.current_time() >= retry_until:
            raise ListenQueueFull
        await trio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _is_connected(socket: trio.socket.SocketType) -> bool:
    try:
        socket.getpeername()
    except OSError:
        return False
    return True


_URL: Final = re.compile(r"http://(?:127\.0\.0\.1|localhost):([0-9]{1,5})/?")

_LOOPBACK: Final = "127.0.0.1"


@attrs.frozen
class Address:
    """A daemon's address: either `socket` or `port` is set; a port needs the token."""

    socket: str | None
    port: int | None
    token: str | None = attrs.field(default=None, repr=False)

    @property
    def display_name(self) -> str:
        """The address as shown to people."""
        return self.socket if self.socket is not None else self.base_url

    @property
    def host(self) -> str:
        """The value of the Host header."""
        return "localhost" if self.port is None else f"{_LOOPBACK}:{self.port}"

    @property
    def base_url(self) -> str:
        """The URL that paths are joined to."""
        return f"http://{self.host}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every request carries."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    async def connect(self) -> trio.SocketStream:
        """Return a connection; raise as `connect_unix` does."""
        if self.socket is not None:
            return await connect_unix(self.socket)
        assert self.port is not None
        return await trio.open_tcp_stream(_LOOPBACK, self.port)


def find_address(
    address: str | os.PathLike[str] | None,
    token_file: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
) -> Address:
    """Return the daemon's address; arguments that are None come from the configuration."""
    where = os.fspath(_daemon_settings(environ).socket if address is None else address)
    if not where.startswith(("http:", "https:")):
        return Address(where, None)
    url = _URL.fullmatch(where)
    if url is None:
        raise ConfigError(
            f"{short_repr(where)} is not an address of a daemon",
            hint="give http://127.0.0.1:PORT, or the path of its socket",
        )
    path = Path(_daemon_settings(environ).token if token_file is None else token_file)
    return Address(None, int(url[1]), read_token(path))


def _daemon_settings(environ: Mapping[str, str]) -> DaemonSettings:
    return load(cwd=Path.cwd(), environ=environ).daemon
