"""Settings of the daemon: where it listens, where it stores its state, what it logs.

The settings of sessions are in `supervisor.config.Settings`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.limits import one_of, whole_number

from .paths import socket_path, state_folder
from .schema import PATH_METADATA

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["text", "json"]

# The longest path of a unix socket in Linux, without the final zero byte.
MAX_SOCKET_PATH_BYTES: Final = 107


def _check_path(_: object, field: attrs.Attribute[Any], value: object) -> None:
    name = f"daemonsettings.{field.name}"
    if not isinstance(value, str) or not value.startswith("/") or not _is_storable(value):
        raise ConfigError(f"{name} is {short_repr(value)}", hint=f"give {name} an absolute path")


def _is_storable(path: str) -> bool:
    # A name that is not UTF-8 has lone surrogates, which cannot be printed or sent.
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in path)


def _check_socket_length(_: object, field: attrs.Attribute[Any], value: str) -> None:
    size = len(os.fsencode(value))
    if size > MAX_SOCKET_PATH_BYTES:
        raise ConfigError(
            f"daemonsettings.{field.name} has {size} bytes",
            hint=f"choose a path of at most {MAX_SOCKET_PATH_BYTES} bytes",
        )


def _check_origins(_: object, field: attrs.Attribute[Any], value: object) -> None:
    name = f"daemonsettings.{field.name}"
    wanted = 'give a list of texts such as "http://127.0.0.1:3000"'
    if not isinstance(value, tuple):
        raise ConfigError(f"{name} is {short_repr(value)}", hint=wanted)
    for origin in value:
        scheme, colon, rest = origin.partition("://") if isinstance(origin, str) else ("", "", "")
        if scheme not in ("http", "https") or not colon or not rest or set(rest) & set("/?#@* "):
            raise ConfigError(f"{name} contains {short_repr(origin)}", hint=wanted)


@attrs.frozen(kw_only=True)
class DaemonSettings:
    """Settings of `understudy serve`."""

    socket: str = attrs.field(
        validator=[_check_path, _check_socket_length], metadata={PATH_METADATA: True}
    )
    state_folder: str = attrs.field(validator=_check_path, metadata={PATH_METADATA: True})
    tcp_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(whole_number(least=1, most=65535))
    )
    allowed_origins: tuple[str, ...] = attrs.field(default=(), validator=_check_origins)
    max_connections: int = attrs.field(default=2000, validator=whole_number(least=1))
    log_level: LogLevel = attrs.field(default="info", validator=one_of(LogLevel))
    log_format: LogFormat = attrs.field(default="text", validator=one_of(LogFormat))

    @property
    def database(self) -> str:
        """Path of the database."""
        return str(Path(self.state_folder) / "state.db")

    @property
    def token(self) -> str:
        """Path of the file with the token for TCP."""
        return str(Path(self.state_folder) / "token")


# An instance to check single fields with; the real paths depend on the user.
EXAMPLE: Final = DaemonSettings(socket="/run/understudy.sock", state_folder="/var/lib/understudy")


def make_daemon_settings(given: Mapping[str, Any], environ: Mapping[str, str]) -> DaemonSettings:
    """Return the settings from given values and default paths.

    Raise ConfigError if the default path of the socket is too long and no other is given.
    """
    state = given.get("state_folder", str(state_folder(environ)))
    socket = given.get("socket", str(socket_path(environ, Path(state))))
    return DaemonSettings(**{**given, "state_folder": state, "socket": socket})
