"""Hosts whose daemons the commands can use: `hosts.toml` in the configuration folder.

    [build]                          # over ssh, which forwards the socket
    ssh = "anna@build.example"
    socket = "/run/user/1000/understudy/understudy.sock"    # optional

    [tunnel]                         # over a TCP port of this machine that leads there
    port = 8765
    token_file = "/home/anna/.config/understudy/build.token"

Rule 1: the file is written with mode 600, in one step, and read only if no other user can write it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from supervisor.configuration.paths import hosts_file
from supervisor.core.errors import ConfigError, SupervisorError, short_repr

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_PORT: Final = 65535
_OWNER_ONLY: Final = 0o600
_FOLDER_MODE: Final = 0o700


class HostNotFound(SupervisorError):
    """No host has that name."""


@attrs.frozen
class Host:
    """A host: either `ssh`, the destination for ssh, or `port`, that of a tunnel, is set."""

    name: str
    ssh: str | None = None
    socket: str | None = None
    port: int | None = None
    token_file: str | None = None

    def __attrs_post_init__(self) -> None:
        """Raise `ConfigError` for a host that cannot be used."""
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{short_repr(self.name)} is not a name of a host",
                hint="use letters, digits, dots, - and _, at most 64",
            )
        if (self.ssh is None) == (self.port is None):
            raise _invalid(self.name, "needs either an ssh destination or a port")
        if self.ssh is not None and not _is_plain(self.ssh):
            raise _invalid(self.name, f"has the ssh destination {short_repr(self.ssh)}")
        if self.socket is not None and not (_is_plain(self.socket) and self.socket[0] == "/"):
            raise _invalid(self.name, f"has the socket {short_repr(self.socket)}")
        if self.port is not None and not 1 <= self.port <= _MAX_PORT:
            raise _invalid(self.name, f"has the port {self.port}")
        if self.port is not None and self.token_file is None:
            raise _invalid(self.name, "has a port and no token file")

    @property
    def way(self) -> str:
        """The way to the daemon, as shown to people."""
        if self.ssh is not None:
            return f"ssh {self.ssh}"
        return f"tcp 127.0.0.1:{self.port}"


def _is_plain(text: str) -> bool:
    # A destination that begins with - would be an option of ssh.
    return bool(text) and text.isprintable() and " " not in text and not text.startswith("-")


def _invalid(name: str, problem: str) -> ConfigError:
    return ConfigError(
        f"host {name} {problem}",
        hint="`understudy hosts add NAME DESTINATION`, or `hosts add NAME --tcp PORT --token-file"
        " PATH`",
    )


def read_hosts(environ: Mapping[str, str]) -> dict[str, Host]:
    """Return all hosts by name; raise `ConfigError` if the file is malformed or not trusted."""
    from supervisor.configuration.sources import InvalidValue  # noqa: PLC0415 - late
    from supervisor.configuration.toml_file import read_file  # noqa: PLC0415 - late

    path = hosts_file(environ)
    try:
        tables = read_file(path).tables
    except FileNotFoundError:
        return {}
    except InvalidValue as wrong:
        raise ConfigError(f"{path} {wrong.problem}", hint=wrong.hint) from None
    return {name: _host(path, name, table) for name, table in tables.items()}


_KINDS: Final = {"ssh": str, "socket": str, "port": int, "token_file": str}


def _host(path: Path, name: str, table: Any) -> Host:  # noqa: ANN401 - any value of TOML
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {name} is not a table", hint=f"write [{name}]")
    for key, value in table.items():
        if not isinstance(value, _KINDS.get(key, ())) or isinstance(value, bool):
            raise ConfigError(
                f"{path}: {name}.{key} is {short_repr(value)}",
                hint=f"known keys: {', '.join(_KINDS)}; the port is a number, the others are texts",
            )
    return Host(name, **table)


def find_host(name: str, environ: Mapping[str, str]) -> Host:
    """Return the host of that name; raise `HostNotFound` if there is none."""
    hosts = read_hosts(environ)
    if name not in hosts:
        known = ", ".join(sorted(hosts)) or "none"
        raise HostNotFound(
            f"no host is called {short_repr(name)} (known: {known})",
            hint="`understudy hosts add NAME DESTINATION` adds one",
        )
    return hosts[name]


def write_hosts(hosts: Mapping[str, Host], environ: Mapping[str, str]) -> Path:
    """Replace the file and return its path; raise `ConfigError` if it cannot be written."""
    path = hosts_file(environ)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(map(_table, hosts.values())))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", hint="check the mode of its folder"
        ) from error
    return path


def _table(host: Host) -> str:
    lines = [f"[{json.dumps(host.name)}]"]
    for key in _KINDS:
        value = getattr(host, key)
        if value is not None:
            # A JSON string is a TOML string: _is_plain and paths have no control characters.
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join((*lines, ""))
