"""Tell systemd how it is: one datagram each time, and silence where nobody listens.

The protocol is a few lines of text to a socket that `NOTIFY_SOCKET` names, so it needs no library.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from supervisor.core.printable import one_line

logger = logging.getLogger("supervisor.daemon")

_MICROSECONDS: Final = 1_000_000


class Notifier:
    """Says how the process is; `watchdog_seconds` is how often systemd wants to hear of it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self.watchdog_seconds = _watchdog_seconds(environ)

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return self._address is not None

    def ready(self, status: str) -> None:
        """It takes requests."""
        self._send("READY=1", f"STATUS={one_line(status)}")

    def status(self, status: str) -> None:
        """What it does just now, for people."""
        self._send(f"STATUS={one_line(status)}")

    def reloading(self) -> None:
        """It reads its configuration again; `ready` follows."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}", "STATUS=reading the configuration again")

    def stopping(self, status: str) -> None:
        """It is about to leave."""
        self._send("STOPPING=1", f"STATUS={one_line(status)}")

    def alive(self) -> None:
        """It was looked at, and it works."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as out:
                # Whoever does not read what we say must not keep everybody here waiting.
                out.settimeout(0)
                out.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            logger.warning("systemd could not be told %s: %s", lines[0], error.strerror)


def _address(given: str) -> str | None:
    """Where to send to: a path, or a name in the kernel's own space, which begins with `@`."""
    if given.startswith("@"):
        return "\0" + given[1:]
    return given if given.startswith("/") else None


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """How long systemd waits between two signs of life; None if it does not, or not for ours."""
    given, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not given.isdecimal() or (whose and whose != str(os.getpid())):
        return None
    return int(given) / _MICROSECONDS or None
