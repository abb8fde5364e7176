"""The daemon's address, and the times at which connecting to it is retried.

A unix socket whose listen queue is full refuses at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from supervisor.configuration.paths import unconfigured_socket
from supervisor.configuration.private_files import read_token
from supervisor.core.errors import ConfigError, short_repr

if TYPE_CHECKING:
    from supervisor.configuration import DaemonSettings

# Time in which a full listen queue is retried. No request has been sent yet.
CONNECT_RETRY_SECONDS: Final = 10.0

_FIRST_PAUSE_SECONDS: Final = 0.005

_LONGEST_PAUSE_SECONDS: Final = 0.25


class ListenQueueFull(Exception):
    """The daemon listens, but its listen queue is full."""


def retry_pauses(now: Callable[[], float]) -> Iterator[float]:
    """Yield the pauses between attempts to connect while the listen queue is full.

    Raise `ListenQueueFull` when `CONNECT_RETRY_SECONDS` have passed on the clock `now`.
    """
    retry_until, pause = now() + CONNECT_RETRY_SECONDS, _FIRST_PAUSE_SECONDS
    while now() < retry_until:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    raise ListenQueueFull


_URL: Final = re.compile(r"http://(?:127\.0\.0\.1|localhost):([0-9]{1,5})/?")

LOOPBACK: Final = "127.0.0.1"


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
        return "localhost" if self.port is None else f"{LOOPBACK}:{self.port}"

    @property
    def base_url(self) -> str:
        """The URL that paths are joined to."""
        return f"http://{self.host}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every request carries."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    def once(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request that has a connection of its own."""
        return {**self.headers, **headers, "connection": "close"}


def find_address(
    address: str | os.PathLike[str] | None,
    token_file: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
) -> Address:
    """Return the daemon's address; arguments that are None come from the configuration."""
    where = os.fspath(_configured_socket(environ) if address is None else address)
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


def _configured_socket(environ: Mapping[str, str]) -> str:
    return unconfigured_socket(Path.cwd(), environ) or _daemon_settings(environ).socket


def _daemon_settings(environ: Mapping[str, str]) -> DaemonSettings:
    from supervisor.configuration.loader import load  # noqa: PLC0415 - slow, and rarely needed

    return load(cwd=Path.cwd(), environ=environ).daemon
