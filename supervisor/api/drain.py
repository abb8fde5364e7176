"""Drain state: whether HTTP accepts new work, and when streams must end.

Rule 1: `close()` ends every stream and every long wait at once, because a server that shuts
        down waits for its open connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from .problems import RequestRefused


class DrainState:
    """Drain state shared by all apps of a process. Not ready until `open()`."""

    def __init__(self) -> None:
        self._is_open = False
        self._is_draining = False
        self._is_closed = False
        # One for each open stream and long wait; cancelled by close().
        self._scopes: set[trio.CancelScope] = set()

    @property
    def is_ready(self) -> bool:
        """Whether new work is accepted."""
        return self._is_open and not self._is_draining and not self._is_closed

    @property
    def is_draining(self) -> bool:
        """Whether new work is refused because the process shuts down."""
        return self._is_draining or self._is_closed

    @property
    def open_streams(self) -> int:
        """Number of open streams and long waits."""
        return len(self._scopes)

    def open(self) -> None:
        """Accept work; called when recovery is done."""
        self._is_open = True

    def drain(self) -> None:
        """Refuse new work. Streams continue, and show how running turns end."""
        self._is_draining = True

    def close(self) -> None:
        """End all streams and long waits, and refuse new ones."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def cancelled_on_close(self) -> Iterator[trio.CancelScope]:
        """Yield a scope that `close()` cancels; raise RequestRefused if already closed."""
        if self._is_closed:
            raise draining_error()
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)


def draining_error() -> RequestRefused:
    """Return the refusal of streams and long waits during shutdown."""
    return RequestRefused("draining", "the server is shutting down", hint="reconnect in a moment")
