"""The feed of a session for its screen: the last records, older ones on demand, then what follows.

Rule 1: the feed outlives the daemon: it is opened again after the last record, until the session
        is gone or the screen closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from supervisor.cli.transcript.model import TranscriptModel
from supervisor.core.errors import SessionNotFound, SupervisorError
from supervisor.core.records import Gap, Item, Record, Reset

if TYPE_CHECKING:
    from supervisor.client import RemoteSession
    from supervisor.client.feed import RemoteWatcher

# Records that are read first, and at least before them when the user scrolls to the start.
FIRST_RECORDS: Final = 400
# A longer gap is shown and not filled.
_MAX_FILLED: Final = 5_000
_RETRY_SECONDS: Final = 1.0
_ITEMS_AT_ONCE: Final = 100


class AttachFeed:
    """The items of one session, and the records that were read."""

    def __init__(self, session: RemoteSession, apply: Callable[[Item], None]) -> None:
        self._session = session
        self._apply = apply
        self._records: list[Record] = []
        self._trouble: str | None = "connecting ..."
        self._open_feed: RemoteWatcher | None = None
        self.is_over = False
        self._is_reading_older = False

    @property
    def trouble(self) -> str | None:
        """What is wrong with the connection; None while the feed is open."""
        if self._trouble is None and self._open_feed and not self._open_feed.is_connected:
            return "the daemon does not answer; trying again"
        return self._trouble

    @property
    def first_seq(self) -> int:
        """The number of the first record that was read; 1 without any before it."""
        return self._records[0].seq if self._records else 1

    async def run(self) -> None:
        """Read until the session is gone."""
        info = await self._session.info()
        after = max(0, info.last_seq - FIRST_RECORDS)
        while not self.is_over:
            try:
                await self._read(after)
            except SessionNotFound:
                break
            except SupervisorError as error:
                self._trouble = f"{error.args[0]}; trying again"
                await asyncio.sleep(_RETRY_SECONDS)
            after = self._records[-1].seq if self._records else after
        self.is_over = True
        self._trouble = "the session was deleted"

    async def _read(self, after: int) -> None:
        async with self._session.watch(after=after) as feed:
            self._trouble = None
            self._open_feed = feed
            count = 0
            async for item in feed:
                if isinstance(item, Gap) and item.last - item.first < _MAX_FILLED:
                    await self._fill(item)
                    continue
                self._keep(item)
                self._apply(item)
                count += 1
                if count % _ITEMS_AT_ONCE == 0:
                    await asyncio.sleep(0)  # a long history must not keep keys waiting
        self.is_over = True

    async def _fill(self, gap: Gap) -> None:
        """Read the records that the feed has skipped, because this reader was too slow."""
        for record in await self._read_between(gap.first - 1, gap.last + 1):
            self._keep(record)
            self._apply(record)

    def _keep(self, item: Item) -> None:
        if isinstance(item, Reset):
            self._records.clear()
        elif isinstance(item, Record) and (not self._records or item.seq > self._records[-1].seq):
            self._records.append(item)

    async def read_older(self) -> TranscriptModel | None:
        """Return a model that begins earlier; None if there is nothing before, or one is read."""
        if self._is_reading_older or self.first_seq <= 1:
            return None
        self._is_reading_older = True
        try:
            # Twice as many each time, so that reading to the start is linear.
            count = max(FIRST_RECORDS, len(self._records))
            older = await self._read_between(max(0, self.first_seq - 1 - count), self.first_seq)
        finally:
            self._is_reading_older = False
        self._records[:0] = older
        model = TranscriptModel(max_blocks=max(20_000, 4 * len(self._records)))
        for record in self._records:
            model.apply(record)
        return model

    async def _read_between(self, after: int, before: int) -> list[Record]:
        records: list[Record] = []
        async with self._session.watch(after=after) as feed:
            async for item in feed:
                if isinstance(item, Record):
                    if item.seq >= before:
                        break
                    records.append(item)
                    if item.seq == before - 1:
                        break
        return records
