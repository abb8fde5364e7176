"""Drain state: whether HTTP accepts new work, and when streams must end.

Rule 1: `close()` ends every stream and every long wait at once, because a server that shuts
        down waits for its open connections.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import trio
from trio_util import AsyncValue, move_on_when

from supervisor.http_server.problems import RequestRefused

_Stage: TypeAlias = Literal["starting", "open", "draining", "closed"]


class DrainState:
    """Drain state shared by all apps of a process. Not ready until `open()`."""

    def __init__(self) -> None:
        # Invariant: only moves to the right in `_Stage`.
        self._stage: AsyncValue[_Stage] = AsyncValue("starting")
        # Number of open streams and long waits.
        self._stream_count = AsyncValue(0)

    @property
    def is_ready(self) -> bool:
        """Whether new work is accepted."""
        stage: _Stage = self._stage.value
        return stage == "open"

    @property
    def is_draining(self) -> bool:
        """Whether new work is refused because the process shuts down."""
        return self._stage.value in ("draining", "closed")

    @property
    def open_streams(self) -> int:
        """Number of open streams and long waits."""
        count: int = self._stream_count.value
        return count

    def open(self) -> None:
        """Accept new work; the daemon calls this method when recovery is done."""
        if self._stage.value == "starting":
            self._stage.value = "open"

    def drain(self) -> None:
        """Refuse new work. Open streams continue, so that readers see how running turns end."""
        if self._stage.value != "closed":
            self._stage.value = "draining"

    def close(self) -> None:
        """End all streams and long waits, and refuse new ones."""
        self._stage.value = "closed"

    async def wait_no_streams(self) -> None:
        """Wait until there is no open stream and no long wait."""
        await self._stream_count.wait_value(0)

    @asynccontextmanager
    async def move_on_when_closed(self) -> AsyncIterator[trio.CancelScope]:
        """Yield a scope that `close()` cancels.

        Raise RequestRefused if `close()` was called before. Errors of the block are raised in an
        exception group.
        """
        if self._stage.value == "closed":
            raise draining_error()
        self._stream_count.value += 1
        try:
            async with move_on_when(self._stage.wait_value, "closed") as scope:
                yield scope
        finally:
            self._stream_count.value -= 1


def draining_error() -> RequestRefused:
    """Return the refusal of streams and long waits during shutdown."""
    return RequestRefused("draining", "the server is shutting down", hint="reconnect in a moment")
