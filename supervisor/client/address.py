"""Where the daemon is: the path of a socket, or a port of this machine with a token."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
import trio

from supervisor.configuration import DaemonSettings, load
from supervisor.core.errors import ConfigError, shown

from .dialling import dial_unix

_URL: Final = re.compile(r"http://(?:127\.0\.0\.1|localhost):([0-9]{1,5})/?")
_LOOPBACK: Final = "127.0.0.1"
_MOST_TOKEN_BYTES: Final = 1024


@attrs.frozen
class Address:
    """Where to connect to, and what to say there: `socket` or `port` is given."""

    socket: str | None
    port: int | None
    token: str | None = attrs.field(default=None, repr=False)

    @property
    def where(self) -> str:
        """For people."""
        return self.socket if self.socket is not None else self.base_url

    @property
    def host(self) -> str:
        """The name by which the daemon is asked."""
        return "localhost" if self.port is None else f"{_LOOPBACK}:{self.port}"

    @property
    def base_url(self) -> str:
        """What paths are joined to."""
        return f"http://{self.host}"

    @property
    def headers(self) -> dict[str, str]:
        """What every request says besides."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    async def dial(self) -> trio.SocketStream:
        """A connection; raises `OSError` if nobody takes it, `Crowded` if too many want one."""
        if self.socket is not None:
            return await dial_unix(self.socket)
        assert self.port is not None
        return await trio.open_tcp_stream(_LOOPBACK, self.port)


def find_address(
    address: str | os.PathLike[str] | None,
    token_file: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
) -> Address:
    """The address that is meant; what is None is where the configuration has it."""
    where = os.fspath(_settings(environ).socket if address is None else address)
    if not where.startswith(("http:", "https:")):
        return Address(where, None)
    url = _URL.fullmatch(where)
    if url is None:
        raise ConfigError(
            f"{shown(where)} is no address of a daemon",
            hint="give http://127.0.0.1:PORT, or the path of its socket",
        )
    path = Path(_settings(environ).token if token_file is None else token_file)
    return Address(None, int(url[1]), _token(path))


def _settings(environ: Mapping[str, str]) -> DaemonSettings:
    return load(cwd=Path.cwd(), environ=environ).daemon


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(
            f"there is no token in {path}: {why}",
            hint="the daemon makes it when it is served with a port",
        ) from error
    if not text or not text.isprintable():
        raise ConfigError(f"what is in {path} is no token", hint="name the daemon's token file")
    return text
