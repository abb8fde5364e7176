"""What the process around the app tells it: whether it takes work, and when streams have to end.

Rule 1: `close()` ends every stream and every long wait at once, so that a server which waits for
        its connections does not wait for those.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from .wire.problems import RequestRefused


class Doors:
    """One for all apps of a process. Begins shut: not ready."""

    def __init__(self) -> None:
        self._is_open = False
        self._is_draining = False
        self._is_closed = False
        # Those of the streams and long waits that are under way.
        self._scopes: set[trio.CancelScope] = set()

    @property
    def is_ready(self) -> bool:
        """Whether work is taken."""
        return self._is_open and not self._is_draining and not self._is_closed

    @property
    def is_draining(self) -> bool:
        """Whether new work is refused because the process is about to leave."""
        return self._is_draining or self._is_closed

    @property
    def streams(self) -> int:
        """How many streams and long waits are under way."""
        return len(self._scopes)

    def open(self) -> None:
        """Recovery is done: work is taken."""
        self._is_open = True

    def drain(self) -> None:
        """No new work is taken; streams go on, and show how the rest ends."""
        self._is_draining = True

    def close(self) -> None:
        """End all streams and long waits, and have no more of them."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def until_closed(self) -> Iterator[trio.CancelScope]:
        """A scope that is cancelled when the doors close; raises if they are closed already."""
        if self._is_closed:
            raise leaving()
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)


def leaving() -> RequestRefused:
    """Why nothing that takes long begins, or goes on."""
    return RequestRefused(
        "draining", "the server is about to leave", hint="connect again in a moment"
    )
