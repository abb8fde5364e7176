"""The settings of the long-lived process: where it listens, where it keeps its state, what it logs.

What it supervises is not here: see `supervisor.config.Settings`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from supervisor.core.errors import ConfigError, shown
from supervisor.core.limits import one_of, whole

from .fields import PATH
from .places import socket_path, state_folder

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["text", "json"]

# What the kernel takes as the address of a unix socket, without the zero at its end.
LONGEST_SOCKET_BYTES: Final = 107


def _path(_: object, field: attrs.Attribute[Any], value: object) -> None:
    name = f"daemonsettings.{field.name}"
    if not isinstance(value, str) or not value.startswith("/") or not _is_storable(value):
        raise ConfigError(f"{name} is {shown(value)}", hint=f"give {name} an absolute path")


def _is_storable(path: str) -> bool:
    # A name that is no UTF-8 comes with lone surrogates, which cannot be printed or sent.
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in path)


def _short(_: object, field: attrs.Attribute[Any], value: str) -> None:
    size = len(os.fsencode(value))
    if size > LONGEST_SOCKET_BYTES:
        raise ConfigError(
            f"daemonsettings.{field.name} has {size} bytes",
            hint=f"a socket's path may have {LONGEST_SOCKET_BYTES}: choose a shorter one",
        )


def _origins(_: object, field: attrs.Attribute[Any], value: object) -> None:
    name = f"daemonsettings.{field.name}"
    wanted = 'give a list of texts such as "http://127.0.0.1:3000"'
    if not isinstance(value, tuple):
        raise ConfigError(f"{name} is {shown(value)}", hint=wanted)
    for origin in value:
        scheme, colon, rest = origin.partition("://") if isinstance(origin, str) else ("", "", "")
        if scheme not in ("http", "https") or not colon or not rest or set(rest) & set("/?#@* "):
            raise ConfigError(f"{name} has {shown(origin)} in it", hint=wanted)


@attrs.frozen(kw_only=True)
class DaemonSettings:
    """How `understudy serve` runs."""

    socket: str = attrs.field(validator=[_path, _short], metadata={PATH: True})
    state_folder: str = attrs.field(validator=_path, metadata={PATH: True})
    tcp_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(whole(least=1, most=65535))
    )
    allowed_origins: tuple[str, ...] = attrs.field(default=(), validator=_origins)
    max_connections: int = attrs.field(default=2000, validator=whole(least=1))
    log_level: LogLevel = attrs.field(default="info", validator=one_of(LogLevel))
    log_format: LogFormat = attrs.field(default="text", validator=one_of(LogFormat))

    @property
    def database(self) -> str:
        """The file of all sessions."""
        return str(Path(self.state_folder) / "state.db")

    @property
    def token(self) -> str:
        """The file with the token that TCP asks for."""
        return str(Path(self.state_folder) / "token")


# What fields are checked with; the two paths depend on who runs it.
EXAMPLE: Final = DaemonSettings(socket="/run/understudy.sock", state_folder="/var/lib/understudy")


def daemon_settings(given: Mapping[str, Any], environ: Mapping[str, str]) -> DaemonSettings:
    """The settings with what was given, and where everything lies by default.

    Raises `ConfigError` if the default path of the socket is too long, and none was given.
    """
    state = given.get("state_folder", str(state_folder(environ)))
    socket = given.get("socket", str(socket_path(environ, Path(state))))
    return DaemonSettings(**{**given, "state_folder": state, "socket": socket})
