"""State of the shutdown: the times by which its steps end, and whether the store answers.

A program may drain first and leave later: both are one shutdown with one set of times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

# For turns to end after their interrupt, while the store does not answer.
_FAILING_STORE_SECONDS: Final = 1.5


class ShutdownState:
    """Times of one shutdown, on trio's clock."""

    def __init__(self) -> None:
        # Until then turns may end by themselves; infinite before the shutdown.
        self.patience_until = math.inf
        # Until then turns that were interrupted may end; infinite before the interrupt.
        self._interrupt_until = math.inf
        self._interrupt_scope = trio.CancelScope()
        self.has_interrupted_turns = False
        # Whether the store did not answer at the last check.
        self.has_store_failed = False
        # Called when the store begins to fail during the shutdown.
        self.on_store_failed: Callable[[], object] | None = None

    def begin(self, patience_seconds: float) -> bool:
        """Begin the shutdown; return True the first time.

        A repeated call can only shorten the time in which turns may end by themselves.
        """
        is_first = self.patience_until == math.inf
        self.patience_until = min(self.patience_until, trio.current_time() + patience_seconds)
        return is_first

    def begin_interrupt(self, seconds: float) -> trio.CancelScope:
        """Return a scope in which interrupted turns may end, for `seconds` from the first call.

        It is shorter while the store does not answer, because then no end can be written.
        """
        if self.has_store_failed:
            seconds = min(seconds, _FAILING_STORE_SECONDS)
        self._interrupt_until = min(self._interrupt_until, trio.current_time() + seconds)
        self._interrupt_scope = trio.CancelScope(deadline=self._interrupt_until)
        return self._interrupt_scope

    def report_store(self, *, answers: bool) -> None:
        """Report whether the store answers; if not, an interrupt that runs has less time."""
        if not answers and not self.has_store_failed and self.on_store_failed is not None:
            self.on_store_failed()
        self.has_store_failed = not answers
        if not answers and self._interrupt_until < math.inf:
            limit = trio.current_time() + _FAILING_STORE_SECONDS
            self._interrupt_until = min(self._interrupt_until, limit)
            self._interrupt_scope.deadline = self._interrupt_until

    def seconds_until(self, after_patience_seconds: float) -> float:
        """Return the seconds until a time after the one at which turns may end by themselves."""
        return self.patience_until + after_patience_seconds - trio.current_time()
