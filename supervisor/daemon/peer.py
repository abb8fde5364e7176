"""The process at the other end of a unix socket: its pid and uid; find the running daemon."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socket as sockets
import struct
import sys
from pathlib import Path
from typing import Final

import attrs

from supervisor.store.sqlite.lock import lock_path

_CONNECT_SECONDS: Final = 1.0


@attrs.frozen
class DaemonProcess:
    """The listening process; `since` is None if its start time is unknown."""

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


def _read_lock_file(socket: Path) -> DaemonProcess | None:
    """Return what the holder of the lock has written into its file."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        entry = json.loads(lock_path(socket).read_bytes()[:4096])
        return DaemonProcess(int(entry["pid"]), float(entry["since"]))
    return None


_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


def peer_uid(connection: socket.socket) -> int | None:
    """Return the uid of the peer of a unix socket; None where the system does not report it."""
    credentials = _credentials(connection)
    return None if credentials is None else credentials[1]


def peer_pid(connection: socket.socket) -> int | None:
    """Return the pid of the peer or listener; None where the system does not report it."""
    credentials = _credentials(connection)
    return None if credentials is None else credentials[0]


def _credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    if not has_peer_credentials():
        return None
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(data)
    return pid, uid, gid


def has_peer_credentials() -> bool:
    """Return True if the system reports peer credentials."""
    return sys.platform == "linux"
