"""Handlers of process signals, installed before the modules of the daemon are imported.

Rule 1: this module is imported first, so it imports only `os` and `signal`.
Rule 2: a signal is never lost: it is queued until the event loop runs, and passed to a function
        then. The function runs in the signal handler, so it works even if the loop is stuck.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # a local constant: importing `typing` is slow
if TYPE_CHECKING:
    from collections.abc import Callable

# Signals that the daemon handles. The third TERM or INT ends the process at once.
HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_EXIT_AFTER_SIGNALS = 3
_KILLED = 128 + signal.SIGKILL


class EarlySignals:
    """Context manager for the main thread: queues signals until the daemon takes them."""

    def __init__(self) -> None:
        self._received: list[int] = []
        self._pass_on: Callable[[int], object] | None = None

    def __enter__(self) -> EarlySignals:  # noqa: PYI034 - `Self` needs `typing`, see rule 1
        self._previous_handlers = {one: signal.signal(one, self) for one in HANDLED_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for one, before in self._previous_handlers.items():
            signal.signal(one, signal.SIG_DFL if before is None else before)

    def __call__(self, number: int, _: object) -> None:
        """Queue the signal or pass it on; exit on the third TERM or INT that is queued."""
        if self._pass_on is not None:
            self._pass_on(number)
            return
        self._received.append(number)
        if sum(one != signal.SIGHUP for one in self._received) >= _EXIT_AFTER_SIGNALS:
            os._exit(_KILLED)

    def pass_on(self, receive: Callable[[int], object]) -> None:
        """Call `receive` with each queued signal, in order, and with each signal from now on."""
        self._pass_on = receive
        held, self._received = self._received, []
        for number in held:
            receive(number)


def active_early_signals() -> EarlySignals | None:
    """Return the active `EarlySignals`, or None."""
    found = signal.getsignal(signal.SIGHUP)
    return found if isinstance(found, EarlySignals) else None
