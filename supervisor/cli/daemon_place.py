"""The place of a daemon: the arguments for `connect()`, and whether it listens there."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Final

import attrs

_PROBE_SECONDS: Final = 1.0


def _no_detail() -> str:
    return ""


@attrs.frozen
class DaemonPlace:
    """Arguments of `connect()`; None for the configured daemon of this machine.

    `detail` returns the last line of ssh, which may say why nothing is behind the forward.
    """

    address: str | None = None
    token_file: str | None = None
    host: str | None = None
    detail: Callable[[], str] = _no_detail


def is_listening(path: str) -> bool:
    """Return True if a process listens on the socket."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(path)
        except (BlockingIOError, TimeoutError):
            return True  # its listen queue is full
        except OSError:
            return False
    return True
