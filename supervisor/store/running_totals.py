"""Totals over all sessions that are kept current without reading every row.

Rule 1: the first call reads every row. A later call reads the rows that were written since the call
        before, so a store notes every session that it has written or deleted, after the commit.
Rule 2: each call also reads the next `CHECKED_ROWS` of all rows, in turn. A row that another
        program damaged is found that way, in a small store at once.
Rule 3: nothing is stored. After a crash the totals are computed from the rows again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing
from typing import Final, Protocol

import trio

from supervisor.core.ids import SessionId
from supervisor.core.totals import Figures, Totals, figures_of, total

from .port import Stored, Write

CHECKED_ROWS: Final = 200
# Rows read at once: between pages other readers can run.
PAGE_ROWS: Final = 200
# Sessions noted at most; beyond it, the next call reads every row again.
MAX_NOTED: Final = 10_000


class RowSource(Protocol):
    """The rows of a store, as its readers see them."""

    def rows(self) -> AsyncGenerator[Stored, None]:
        """Yield all readable rows."""

    async def read_some(self, session_ids: Sequence[SessionId]) -> list[Stored]:
        """Return the sessions of these that exist and are readable."""

    async def damaged(self, *, known_readable: Collection[SessionId]) -> list[SessionId]:
        """Return the sessions whose rows cannot be decoded."""


class RunningTotals:
    """The figures of each session as last read, and the sessions written since."""

    def __init__(self) -> None:
        # One call at a time: a second one must not miss the sessions that the first one reads.
        self._lock = trio.Lock()
        self._is_current = False
        self._figures: dict[SessionId, Figures] = {}
        self._noted: set[SessionId] = set()
        # Sessions to read again although nothing was noted; see rule 2.
        self._to_check: list[SessionId] = []

    def note(self, session_ids: Iterable[SessionId]) -> None:
        """Read these sessions again in the next call; what readers see of them has changed."""
        if self._is_current:
            self._noted.update(session_ids)
            if len(self._noted) > MAX_NOTED:
                self.forget()

    def note_writes(self, writes: Iterable[Write]) -> None:
        """Note the sessions of these writes, after their commit or an unknown outcome."""
        if self._is_current:
            self.note(_written_sessions(writes))

    def forget(self) -> None:
        """Read every row in the next call."""
        self._is_current = False
        self._noted = set()

    async def collect(self, source: RowSource) -> Totals:
        """Return the totals as of all commits before this call, or later ones."""
        async with self._lock:
            if self._is_current:
                await self._read_again(source)
            else:
                await self._read_all(source)
            damaged = await source.damaged(known_readable=self._figures.keys())
            return total(self._figures.values(), damaged=tuple(damaged))

    async def _read_all(self, source: RowSource) -> None:
        self._figures, self._noted, self._is_current = {}, set(), True
        try:
            async with aclosing(source.rows()) as rows:
                async for stored in rows:
                    self._figures[stored.row.id] = figures_of(stored.row)
            if self._noted:
                await self._read_again(source)  # what was written meanwhile
        except BaseException:
            self.forget()
            raise

    async def _read_again(self, source: RowSource) -> None:
        if not self._to_check:
            self._to_check = list(self._figures)
        wanted = list({*self._noted, *self._to_check[:CHECKED_ROWS]})
        self._noted = set()
        del self._to_check[:CHECKED_ROWS]
        try:
            for first in range(0, len(wanted), PAGE_ROWS):
                some = wanted[first : first + PAGE_ROWS]
                found = await source.read_some(some)
                for session_id in some:
                    self._figures.pop(session_id, None)
                self._figures.update((one.row.id, figures_of(one.row)) for one in found)
        except BaseException:
            self.note(wanted)
            raise


def _written_sessions(writes: Iterable[Write]) -> Iterable[SessionId]:
    for write in writes:
        for part in write.parts:
            if part.row is not None:
                yield part.session_id
            if part.deletes is not None:
                yield part.deletes
