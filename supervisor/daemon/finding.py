"""Which process is the daemon, for those who want to send it a signal."""

from __future__ import annotations

import contextlib
import json
import os
import socket as sockets
from pathlib import Path
from typing import Final

import attrs

from supervisor.store.sqlite.lock import lock_path

from .listening.sockets import peer_pid

_PATIENCE_SECONDS: Final = 1.0


@attrs.frozen
class DaemonProcess:
    """Who listens, and since when; None if that is not known."""

    pid: int
    since: float | None


def find_daemon(socket: str | os.PathLike[str]) -> DaemonProcess | None:
    """The process that listens on the socket of that name; None if none does.

    The kernel says who it is. Its lock is not touched: one that starts just now would take that
    for another daemon.
    """
    signed = _signature(Path(socket))
    with contextlib.closing(sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)) as probe:
        probe.settimeout(_PATIENCE_SECONDS)
        try:
            probe.connect(os.fspath(socket))
            pid = peer_pid(probe)
        except OSError:
            return None
    if pid is None:  # a system that does not say
        return signed
    return signed if signed is not None and signed.pid == pid else DaemonProcess(pid, None)


def _signature(socket: Path) -> DaemonProcess | None:
    """What whoever holds the lock has written into it."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        signed = json.loads(lock_path(socket).read_bytes()[:4096])
        return DaemonProcess(int(signed["pid"]), float(signed["since"]))
    return None
