"""Notifications for systemd, and its watchdog.

The protocol is one datagram of text lines to the socket in `NOTIFY_SOCKET`, so it needs no library.
Nothing is sent if systemd does not listen.

Rule 1: the watchdog is notified only after the registry, the writer and the store have replied;
        that this task runs shows that the event loop runs.
Rule 2: without a reply nothing is sent, and systemd restarts the daemon.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final

from trio_util import periodic

from supervisor.core.text import one_line

logger = logging.getLogger("supervisor.daemon")

_MICROSECONDS: Final = 1_000_000


class Notifier:
    """Sends the state of the process; `watchdog_seconds` is the watchdog interval of the unit."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self.watchdog_seconds = _watchdog_seconds(environ)

    @property
    def is_enabled(self) -> bool:
        """True if systemd listens for notifications."""
        return self._address is not None

    def ready(self, status: str) -> None:
        """Report that requests are accepted."""
        self._send("READY=1", f"STATUS={one_line(status)}")

    def waiting(self, status: str, *, extend_seconds: float) -> None:
        """Report why the start takes longer, and extend its time-out."""
        extension = f"EXTEND_TIMEOUT_USEC={extend_seconds * _MICROSECONDS:.0f}"
        self._send(f"STATUS={one_line(status)}", extension)

    def status(self, status: str) -> None:
        """Set the status text that systemctl shows."""
        self._send(f"STATUS={one_line(status)}")

    def reloading(self) -> None:
        """Report that the configuration is being reloaded; `ready` follows."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}", "STATUS=reloading the configuration")

    def stopping(self, status: str) -> None:
        """Report that the shutdown has begun."""
        self._send("STOPPING=1", f"STATUS={one_line(status)}")

    def alive(self) -> None:
        """Report a successful watchdog check."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as out:
                # Non-blocking: a reader that is stuck must not block the daemon.
                out.settimeout(0)
                out.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            logger.warning("systemd notification %s failed: %s", lines[0], error.strerror)


def _address(name: str) -> str | None:
    """Return the address to send to: a path, or an abstract socket name (written with `@`)."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else None


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """Return the watchdog interval of this process; None if systemd has set none."""
    microseconds = environ.get("WATCHDOG_USEC", "")
    pid = environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or (pid and pid != str(os.getpid())):
        return None
    return int(microseconds) / _MICROSECONDS or None


STATUS_SECONDS: Final = 10.0


async def run_watchdog(notifier: Notifier, check: Callable[[float], Awaitable[None]]) -> None:
    """Run `check` three times per watchdog interval and notify systemd, until cancelled.

    `check` gets the time it may take, and raises if a component does not reply.
    """
    if notifier.watchdog_seconds is None:
        return
    period = notifier.watchdog_seconds / 3
    # aclosing: a cancelled check leaves the generator suspended, which trio warns about.
    async with aclosing(periodic(period)) as ticks:
        async for _ in ticks:
            try:
                await check(period)
            except Exception as error:  # noqa: BLE001 - any error means that a reply is missing
                logger.error("watchdog check failed: %s", type(error).__name__)  # noqa: TRY400 - the traceback adds nothing
            else:
                notifier.alive()


async def report_status(notifier: Notifier, describe: Callable[[], str]) -> None:
    """Keep the status text of the unit up to date, until cancelled."""
    if not notifier.is_enabled:
        return
    shown = ""
    async for _ in periodic(STATUS_SECONDS):
        status = describe()
        if status != shown:
            notifier.status(status)
            shown = status
