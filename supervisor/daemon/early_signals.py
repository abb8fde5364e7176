"""Signals that arrive before the daemon's event loop runs, while modules are imported.

Rule 1: this module is imported first, so it imports only `os` and `signal`.
"""

from __future__ import annotations

import os
import signal

# Signals that the daemon handles. The third TERM or INT ends the process at once.
HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_EXIT_AFTER_SIGNALS = 3
_KILLED = 128 + signal.SIGKILL


class EarlySignals:
    """Context manager for the main thread: queues signals until the daemon takes them."""

    def __init__(self) -> None:
        self._received: list[int] = []

    def __enter__(self) -> EarlySignals:  # noqa: PYI034 - `Self` needs `typing`, see rule 1
        self._previous_handlers = {one: signal.signal(one, self) for one in HANDLED_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for one, before in self._previous_handlers.items():
            signal.signal(one, signal.SIG_DFL if before is None else before)

    def __call__(self, number: int, _: object) -> None:
        """Queue the signal; exit on the third TERM or INT."""
        self._received.append(number)
        if sum(one != signal.SIGHUP for one in self._received) >= _EXIT_AFTER_SIGNALS:
            os._exit(_KILLED)

    def take(self) -> list[int]:
        """Return the queued signals in order, and empty the queue."""
        held, self._received = self._received, []
        return held


def active_early_signals() -> EarlySignals | None:
    """Return the active `EarlySignals`, or None."""
    found = signal.getsignal(signal.SIGHUP)
    return found if isinstance(found, EarlySignals) else None
