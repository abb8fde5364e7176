"""A unix socket that only its owner can reach, and the file that names it.

Rule 1: a socket file at which nothing listens was left by a process that died, and is replaced; the
        caller holds a lock that no other process of ours has.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from trio_util import periodic

from supervisor.core.errors import ConfigError, StoreLocked
from supervisor.store.sqlite.files import device_and_inode

from .peer import peer_pid

logger = logging.getLogger("supervisor.http")

BACKLOG: Final = 512

_OWNER_ONLY: Final = 0o600
_PROBE_SECONDS: Final = 1.0
# Between two checks of the socket's file.
_CHECK_SECONDS: Final = 2.0


@contextmanager
def unix_listener(path: Path) -> Iterator[socket.socket]:
    """Listen on a unix socket with mode 600 in the block, and remove its file afterwards.

    Raise `StoreLocked` if a process without the lock listens
    there, and `ConfigError` if the socket cannot be created.
    """
    with ExitStack() as opened:
        try:
            _remove_stale_socket(path)
            listener = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            # The kernel creates the file with the mode of the descriptor: other users can reach
            # it at no time, and the umask is not changed under threads that start agents.
            with contextlib.suppress(OSError):
                os.fchmod(listener.fileno(), _OWNER_ONLY)
            listener.bind(os.fspath(path))
            path.chmod(_OWNER_ONLY)
            made = path.stat()
        except OSError as error:
            raise ConfigError(
                f"cannot create the socket {path}: {error.strerror}",
                hint="choose another path: daemon.socket",
            ) from error
        try:
            listener.listen(BACKLOG)
            yield listener
        finally:
            _remove_socket(path, made)


def _remove_stale_socket(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(
            f"{path} exists and is not a socket",
            hint="move it away, or choose another path: daemon.socket",
        )
    _check_not_listening(path)
    path.unlink(missing_ok=True)


def _check_not_listening(path: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except TimeoutError:
            pass  # a process listens, but is too busy to accept
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                return
            raise ConfigError(
                f"cannot check {path}: {error.strerror}",
                hint="check its owner and mode, or choose another path: daemon.socket",
            ) from error
        pid: int | None = None
        with contextlib.suppress(OSError):
            pid = peer_pid(probe)
    holder = "another process" if pid is None else f"process {pid}"
    raise StoreLocked(f"{holder} listens on {path}", hint="use that daemon, or stop it first")


def _remove_socket(path: Path, made: os.stat_result) -> None:
    """Remove our socket file, unless another file has replaced it."""
    with contextlib.suppress(OSError):
        found = path.lstat()
        if (found.st_ino, found.st_dev) == (made.st_ino, made.st_dev):
            path.unlink()


async def keep_socket(path: Path, listen: Callable[[socket.socket], Awaitable[None]]) -> None:
    """Make our socket again when its file was deleted, until cancelled; `listen` serves it.

    A cleanup of old files may delete it. A file that another program has put there stays.
    """
    with ExitStack() as made_again:
        ours, reported = device_and_inode(path), ""
        async for _ in periodic(_CHECK_SECONDS):
            if device_and_inode(path) == ours:
                continue
            try:
                made = made_again.enter_context(unix_listener(path))
            except (ConfigError, StoreLocked) as error:
                if str(error) != reported:
                    reported = str(error)
                    logger.error("no client can connect: %s", error)  # noqa: TRY400 - the text is complete
                continue
            await listen(made)
            ours, reported = device_and_inode(path), ""
            logger.warning("the socket %s was deleted, and is made again", path)
