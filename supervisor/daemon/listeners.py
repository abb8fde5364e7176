"""Listening sockets, the gate that each one authenticates with, and the process at the other end.

Rule 1: the listening process holds the lock beside the socket from before it checks the path until
        after it has closed the socket. So a socket file whose lock is free was left by a daemon
        that died, and may be replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socket as sockets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from supervisor.configuration import DaemonSettings
from supervisor.core.errors import ConfigError, StoreLocked
from supervisor.http_server.gate import AgentPolicy, Gate, TcpGate, UnixGate
from supervisor.http_server.peer import has_peer_credentials, peer_pid
from supervisor.http_server.unix_listener import BACKLOG, unix_listener
from supervisor.store.sqlite.lock import is_held, lock_path, locked

from .logging_ import SecretFilter
from .token import ensure_token

_CONNECT_SECONDS: Final = 1.0


@attrs.frozen
class DaemonProcess:
    """The process that listens; `since` is None if its start time is unknown."""

    pid: int
    since: float | None


def find_daemon(socket: str | os.PathLike[str]) -> DaemonProcess | None:
    """Return the process that listens on the socket, or None.

    The kernel reports the pid. The lock is only read, never taken: a daemon that starts at this
    moment would take the holder for another daemon.
    """
    lock_entry = _read_lock_file(Path(socket))
    with contextlib.closing(sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(socket))
            pid = peer_pid(probe)
        except OSError:
            return None
    if pid is None:  # a system without peer credentials
        return lock_entry
    if lock_entry is not None and lock_entry.pid == pid:
        return lock_entry
    return DaemonProcess(pid, None)


def find_lock_holder(socket: str | os.PathLike[str]) -> str | None:
    """Return the name of the process that holds the lock of the socket; None if none does.

    It may not listen, or not yet.
    """
    if not is_held(Path(socket)):
        return None
    holder = find_starting_daemon(socket)
    return "a process" if holder is None else f"process {holder.pid}"


def find_starting_daemon(socket: str | os.PathLike[str]) -> DaemonProcess | None:
    """Return the process that holds the lock of the socket and may not listen; None if unknown."""
    return _read_lock_file(Path(socket)) if is_held(Path(socket)) else None


def _read_lock_file(socket: Path) -> DaemonProcess | None:
    """Return the process that the lock file names; None if the file is missing or malformed."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        entry = json.loads(lock_path(socket).read_bytes()[:4096])
        return DaemonProcess(int(entry["pid"]), float(entry["since"]))
    return None


LOOPBACK: Final = "127.0.0.1"


@contextmanager
def hold_socket_lock(path: Path) -> Iterator[None]:
    """Hold the lock of the socket in the block; raise `StoreLocked`, which names the holder."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(path))
        except StoreLocked:
            holder = _read_lock_file(path)
            who = "" if holder is None else f" (process {holder.pid})"
            raise StoreLocked(
                f"a daemon already runs{who} and has the lock of {path}",
                hint="use that daemon, or stop it first",
            ) from None
        yield


@contextmanager
def tcp_listener(port: int) -> Iterator[socket.socket]:
    """Listen on a loopback port in the block; raise `ConfigError` if the port cannot be opened."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on port {port}: {error.strerror}",
                hint="choose another port: daemon.tcp_port",
            ) from error
        yield listener


@attrs.frozen
class Listener:
    """A listening socket, its address for people, its gate, and the path of a unix socket."""

    display_name: str
    socket: socket.socket
    gate: Gate
    path: Path | None = None


Listeners: TypeAlias = tuple[Listener, ...]


@contextmanager
def open_listeners(
    daemon: DaemonSettings, secret_filter: SecretFilter, agent_policy: AgentPolicy
) -> Iterator[Listeners]:
    """Yield all listeners, open during the block; raise `ConfigError` if one cannot be opened.

    The token is added to `secret_filter`, so that no log line contains it. `agent_policy` applies
    to the unix socket; on TCP the kernel does not say who connects.
    """
    origins = frozenset(daemon.allowed_origins)
    own_uid = os.geteuid() if has_peer_credentials() else None
    with ExitStack() as sockets:
        path = Path(daemon.socket)
        unix = sockets.enter_context(unix_listener(path))
        gate: Gate = UnixGate(own_uid=own_uid, origins=origins, agent_policy=agent_policy)
        listeners: Listeners = (Listener(daemon.socket, unix, gate, path),)
        if daemon.tcp_port is not None:
            token = ensure_token(Path(daemon.token))
            secret_filter.add(token)
            port = sockets.enter_context(tcp_listener(daemon.tcp_port))
            gate = TcpGate(port=daemon.tcp_port, token=token, origins=origins)
            address = f"http://{LOOPBACK}:{daemon.tcp_port}"
            listeners = (*listeners, Listener(address, port, gate))
        yield listeners
