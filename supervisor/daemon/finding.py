"""Which process is the daemon, for those who want to send it a signal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path

import attrs

from supervisor.store.sqlite.lock import lock_path


@attrs.frozen
class DaemonProcess:
    """Who holds the socket, and since when."""

    pid: int
    since: float


def find_daemon(socket: str | os.PathLike[str]) -> DaemonProcess | None:
    """The process that holds the socket of that name; None if none does.

    It goes by the lock, which the kernel takes from whoever dies; so a pid that was in use before
    is never taken for the daemon's.
    """
    try:
        descriptor = os.open(lock_path(Path(socket)), os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(ValueError, KeyError, TypeError, OSError):
            signed = json.loads(os.pread(descriptor, 4096, 0))
            return DaemonProcess(int(signed["pid"]), float(signed["since"]))
    finally:
        os.close(descriptor)
    return None
