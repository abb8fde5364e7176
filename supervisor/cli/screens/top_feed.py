"""The stream behind `top`: items into the model, and whether the daemon is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from supervisor.core.errors import SupervisorError
from supervisor.handles.session_rows import Snapshot, row_of

from .top_header import Connection
from .top_model import TopModel

if TYPE_CHECKING:
    from supervisor.cli.target import Target

# Opens the daemon, which it may start; the tests give a supervisor of their own.
Connect = Callable[[], AbstractAsyncContextManager[Any]]

_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 2.0
_PAGE_SIZE: Final = 500


class TopFeed:
    """Keeps the model current over restarts of the daemon, until it is cancelled."""

    def __init__(self, connect: Connect, model: TopModel) -> None:
        self._connect = connect
        self._model = model
        self._feed: Any = None
        self._has_snapshot = False
        # Counts the snapshots; each one is without the stopped sessions.
        self.snapshots = 0
        # The supervisor to call; None before the first connection.
        self.sup: Target | None = None
        # Why the daemon could not be reached at first; it ends the screen.
        self.first_error: SupervisorError | None = None
        self._gone_since: float | None = None

    async def run(self) -> None:
        """Connect and read; connect again whatever ends the stream."""
        pause = _FIRST_PAUSE_SECONDS
        while self.first_error is None:
            try:
                await self._read()
                pause = _FIRST_PAUSE_SECONDS
            except SupervisorError as error:
                if not self._has_snapshot:
                    self.first_error = error
                    return
            finally:
                self._feed = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _read(self) -> None:
        async with self._connect() as sup:
            self.sup = sup
            async with sup.watch_sessions() as feed:
                self._feed = feed
                async for item in feed:
                    self._model.apply(item)
                    if isinstance(item, Snapshot):
                        self._has_snapshot = True
                        self.snapshots += 1

    async def load_stopped(self) -> int:
        """Give the model all stopped sessions, page by page; return their number."""
        assert self.sup is not None
        count, cursor = 0, None
        while True:
            page = await self.sup.list(phase="stopped", limit=_PAGE_SIZE, cursor=cursor)
            self._model.add_stopped(row_of(info) for info in page.items)
            count, cursor = count + len(page.items), page.next
            if cursor is None:
                return count

    def connection(self) -> Connection:
        """Return whether the daemon is there; a feed that reconnects by itself says so."""
        is_there = self._feed is not None and getattr(self._feed, "is_connected", True)
        if is_there:
            self._gone_since = None
            return "connected" if self._has_snapshot else "connecting"
        if not self._has_snapshot:
            return "connecting"
        self._gone_since = self._gone_since or time.time()
        return "gone"

    @property
    def gone_since(self) -> float | None:
        """When the daemon went away, by the clock of the wall."""
        return self._gone_since
