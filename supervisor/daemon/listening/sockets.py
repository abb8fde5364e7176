"""The sockets themselves: made for us alone, taken over from the dead and never from the living.

Rule 1: whoever listens holds the lock beside the socket, from before it looks until it has left.
        So a socket without a holder is one that a dead daemon left, and can be replaced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from supervisor.core.errors import ConfigError, StoreLocked
from supervisor.store.sqlite.lock import locked

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 512
_OWNER_ONLY: Final = 0o600
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid
_PROBE_SECONDS: Final = 1.0


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Be the one who may listen there; raises `StoreLocked` with the process that is."""
    with locked(path):
        yield


@contextmanager
def unix_listener(path: Path) -> Iterator[socket.socket]:
    """Listen on a unix socket that only we can reach, and take its file away afterwards.

    To be called while `holding` it. Raises `StoreLocked` if somebody who holds no lock listens
    there all the same, and `ConfigError` if it cannot be made.
    """
    _clear_stale(path)
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as listener:
        try:
            # The kernel makes the file with the rights of the descriptor: at no instant is it
            # open to others, and no umask is changed under the threads that start agents.
            with contextlib.suppress(OSError):
                os.fchmod(listener.fileno(), _OWNER_ONLY)
            listener.bind(os.fspath(path))
            path.chmod(_OWNER_ONLY)
            made = path.stat()
        except OSError as error:
            raise ConfigError(
                f"the socket {path} cannot be made: {error.strerror}",
                hint="choose another place for it: daemon.socket",
            ) from error
        try:
            listener.listen(_BACKLOG)
            yield listener
        finally:
            _remove(path, made)


@contextmanager
def tcp_listener(port: int) -> Iterator[socket.socket]:
    """Listen on a port of this machine, for this machine; raises `ConfigError`."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be listened on: {error.strerror}",
                hint="choose another one: daemon.tcp_port",
            ) from error
        yield listener


def peer_uid(connection: socket.socket) -> int | None:
    """Who is at the other end of a unix socket; None where the system does not say."""
    credentials = _credentials(connection)
    return None if credentials is None else credentials[1]


def peer_pid(connection: socket.socket) -> int | None:
    """Which process is there, or has begun to listen there; None where the system does not say."""
    credentials = _credentials(connection)
    return None if credentials is None else credentials[0]


def _credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    if not says_who_asks():
        return None
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(given)
    return pid, uid, gid


def says_who_asks() -> bool:
    """Whether `peer_uid` knows."""
    return sys.platform == "linux"


def _clear_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(
            f"{path} is there, and is no socket",
            hint="move it away, or choose another place: daemon.socket",
        )
    _refuse_if_alive(path)
    path.unlink(missing_ok=True)


def _refuse_if_alive(path: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except TimeoutError:
            pass  # it is so busy that it does not answer, and so it lives
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                return
            raise ConfigError(
                f"{path} cannot be looked at: {error.strerror}",
                hint="look at its owner and mode, or choose another place: daemon.socket",
            ) from error
        pid: int | None = None
        with contextlib.suppress(OSError):
            pid = peer_pid(probe)
    who = "another process" if pid is None else f"process {pid}"
    raise StoreLocked(f"{who} listens on {path}", hint="use that one, or stop it first")


def _remove(path: Path, made: os.stat_result) -> None:
    """Take our own file away, and nobody else's that has come in its place."""
    with contextlib.suppress(OSError):
        found = path.lstat()
        if (found.st_ino, found.st_dev) == (made.st_ino, made.st_dev):
            path.unlink()
