"""The ways in: a socket each, and who may come by it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import attrs

from supervisor.api.gate import Gate, TcpGate, UnixGate
from supervisor.configuration import DaemonSettings

from .listening.sockets import LOOPBACK, says_who_asks, tcp_listener, unix_listener
from .listening.token import ensure_token
from .telling.logs import Cover


@attrs.frozen
class Way:
    """Where it is, for people; and its socket and gate."""

    where: str
    listener: socket.socket
    gate: Gate


Ways: TypeAlias = tuple[Way, ...]


@contextmanager
def bound(daemon: DaemonSettings, cover: Cover) -> Iterator[Ways]:
    """Have all sockets there while the block runs; raises `ConfigError` if one cannot be had.

    The token is shown to `cover`, so that no log line ever has it.
    """
    origins = frozenset(daemon.allowed_origins)
    own_uid = os.geteuid() if says_who_asks() else None
    with ExitStack() as sockets:
        unix = sockets.enter_context(unix_listener(Path(daemon.socket)))
        ways: Ways = (Way(daemon.socket, unix, UnixGate(own_uid=own_uid, origins=origins)),)
        if daemon.tcp_port is not None:
            token = ensure_token(Path(daemon.token))
            cover.add(token)
            port = sockets.enter_context(tcp_listener(daemon.tcp_port))
            gate = TcpGate(port=daemon.tcp_port, token=token, origins=origins)
            ways = (*ways, Way(f"http://{LOOPBACK}:{daemon.tcp_port}", port, gate))
        yield ways
