"""Signals that come before anybody can obey them: a program of this size takes a while to begin.

Rule 1: this is imported first of all, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal

# Those that the daemon obeys. Of the ones that end it, so many are not held any more.
HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TOO_MANY = 3
_KILLED = 128 + signal.SIGKILL


class HeldSignals:
    """For `with`, in the main thread: signals end nothing, and are kept for whoever takes them."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def __enter__(self) -> HeldSignals:  # noqa: PYI034 - `Self` is in `typing`, see above
        self._before = {one: signal.signal(one, self) for one in HEARD}
        return self

    def __exit__(self, *_: object) -> None:
        for one, before in self._before.items():
            signal.signal(one, signal.SIG_DFL if before is None else before)

    def __call__(self, number: int, _: object) -> None:
        """A signal has come."""
        self._held.append(number)
        if sum(one != signal.SIGHUP for one in self._held) >= _TOO_MANY:
            os._exit(_KILLED)  # whoever says it three times does not wait for us to begin

    def take(self) -> list[int]:
        """What was held until now, in its order."""
        held, self._held = self._held, []
        return held


def holder() -> HeldSignals | None:
    """Who holds signals just now, if anybody does."""
    found = signal.getsignal(signal.SIGHUP)
    return found if isinstance(found, HeldSignals) else None
