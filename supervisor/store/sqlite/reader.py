"""The reading half of the SQLite store: reader connections and threads; `store` writes."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Concatenate, Final, ParamSpec, TypeVar

import trio
from trio_util import run_and_cancelling

from supervisor.core.errors import NotStorable
from supervisor.core.ids import CallId, InputId, SessionId, TurnId
from supervisor.core.match import IdKind, Place
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.core.store_finding import StoreFinding
from supervisor.core.totals import Totals
from supervisor.store.filters import RecoveredRows, matches
from supervisor.store.list_filter import NO_FILTER, Filter
from supervisor.store.port import (
    Hit,
    ProcessEntry,
    RawRecord,
    RawRow,
    StartupRows,
    Stored,
    StoredReply,
)
from supervisor.store.running_totals import RunningTotals
from supervisor.store.threads import StoreThread, TrioThreads

from . import backup, feed_reads, file_check, find, lists, read
from .file_check import damage_finding, quick_check
from .files import TRY_AGAIN, FileIdentity, degraded_error, is_damage, open_reader
from .lock import are_rows_current
from .run_notes import RunNotes

Args = ParamSpec("Args")
Answer = TypeVar("Answer")

# Concurrent reads: enough that a long one does not delay the others.
MAX_READERS: Final = 4
# Bound of the check after an unclean end.
CHECK_SECONDS: Final = 60.0


class SqliteReader:
    """Reads of an SQLite file, in threads; each has its own connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: sqlite3.Connection | None = None
        self._file_identity: FileIdentity | None = None
        # With our own limit, because trio's is shared.
        self._readers = TrioThreads(MAX_READERS)
        # Reader connections that are not in use.
        self._idle_connections: list[sqlite3.Connection] = []
        # Damaged sessions that are in the log already: each is logged once.
        self._reported_damaged: set[SessionId] = set()
        self._recovered = RecoveredRows()
        self._totals = RunningTotals()
        # The notes of the previous supervisor.
        self._last_run = RunNotes()
        self._on_damage: Callable[[StoreFinding], object] = lambda _: None

    def set_on_damage(self, on_damage: Callable[[StoreFinding], object]) -> None:
        """Set the function that is called whenever SQLite reports that the file is damaged."""
        self._on_damage = on_damage

    async def _run_in_thread(
        self, thread: StoreThread, work: Callable[[], Answer], *, then: str = TRY_AGAIN
    ) -> Answer:
        try:
            return await thread.run(work)
        except sqlite3.Error as error:
            if "Could not decode to UTF-8" in str(error):  # a damaged text in a sound file
                raise NotStorable(
                    f"a value in {self.path.name} cannot be read: {error}",
                    hint="restore a backup, or inspect it with sqlite3",
                ) from error
            if is_damage(error):
                self._on_damage(damage_finding(self.path, str(error)))
            degraded = degraded_error(error, self.path, then=then)
            if degraded is None:
                raise
            raise degraded from error

    async def _read(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Args], Answer],
        *args: Args.args,
        **more: Args.kwargs,
    ) -> Answer:
        def do() -> Answer:
            connection = (
                self._idle_connections.pop() if self._idle_connections else self._open_reader()
            )
            try:
                answer = work(connection, *args, **more)
            except BaseException:
                connection.close()  # the next read opens another one
                raise
            if self._writer is None:
                connection.close()  # the store was closed meanwhile
            else:
                self._idle_connections.append(connection)
            return answer

        return await self._run_in_thread(self._readers, do)

    def _open_reader(self) -> sqlite3.Connection:
        if self._file_identity is not None:
            # Otherwise it would read the file that is now in its place.
            self._file_identity.check(is_surely_unwritten=True)
        return open_reader(self.path)

    @property
    def ended_uncleanly(self) -> bool:
        """Whether the previous supervisor did not close the file."""
        return self._last_run.is_open

    async def quick_check(self) -> tuple[StoreFinding, ...]:
        """Return the damage that a quick check of the file finds; a cancelled check ends at once.

        Raise `TimeoutError` if it is not checked completely.
        """
        stopped = Event()
        check = partial(quick_check, self.path, seconds=CHECK_SECONDS, is_cancelled=stopped.is_set)
        async with run_and_cancelling(_set_when_cancelled, stopped):
            return await self._readers.run(check)

    async def read(self, session_id: SessionId) -> Stored | None:
        stored = await self._read(read.read_one, session_id)
        return None if stored is None else self._recovered.shown(stored)

    async def read_some(self, session_ids: Sequence[SessionId]) -> list[Stored]:
        found = await self._read(read.read_some, session_ids, self._reported_damaged)
        return [self._recovered.shown(stored) for stored in found]

    async def find_ids(
        self,
        kind: IdKind,
        text: str,
        place: Place,
        *,
        session_id: SessionId | None = None,
        limit: int = 20,
    ) -> list[tuple[str, SessionId]]:
        return await self._read(
            find.find_ids, kind, text, place, session_id=session_id, limit=limit
        )

    async def sessions_named(
        self, name: str, *, root: SessionId | None = None, limit: int = 20
    ) -> list[Stored]:
        found = await self._read(find.sessions_named, name, root, limit)
        return [self._recovered.shown(one) for one in found]

    async def totals(self) -> Totals:
        if self._writer is None:
            self._totals.forget()  # another supervisor may write
        return await self._totals.collect(self)

    def show_recovered(self, rows: Mapping[SessionId, SessionState]) -> bool:
        if self._writer is None and are_rows_current(self.path):
            return False
        self._totals.note((*self._recovered, *rows))
        self._recovered = RecoveredRows(rows)
        return True

    async def records(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        limit: int | None = None,
        turn: TurnId | None = None,
    ) -> list[Record]:
        return await self._read(read.records, session_id, after, limit, turn)

    async def ran(self, session_id: SessionId, turn: TurnId | None, call: CallId | None) -> bool:
        return await self._read(read.ran, session_id, turn, call)

    async def records_of_input(self, session_id: SessionId, input_id: InputId) -> list[Record]:
        return await self._read(read.records_of_input, session_id, input_id)

    async def all_records(
        self, *, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Record]]:
        return await self._read(read.all_records, after, limit)

    async def last_position(self) -> int:
        return await self._read(read.last_position)

    async def highest_position(self) -> int:
        return await self._read(file_check.last_position)

    async def records_by_position(
        self, after: Mapping[SessionId, int], *, limit: int
    ) -> list[tuple[int, Record]]:
        return await self._read(feed_reads.records_by_position, after, limit)

    async def numbers_at(
        self, position: int, session_ids: Collection[SessionId]
    ) -> dict[SessionId, int]:
        return await self._read(feed_reads.numbers_at, position, session_ids)

    async def latest_texts(self, session_ids: Collection[SessionId]) -> dict[SessionId, str]:
        return await self._read(feed_reads.latest_texts, session_ids)

    async def records_of_kinds(self, kinds: Collection[str]) -> list[Record]:
        return await self._read(read.records_of_kinds, kinds)

    async def raw_records(self, session_id: SessionId) -> list[RawRecord]:
        return await self._read(read.raw_records, session_id)

    async def snapshot(self, session_id: SessionId, *, at: int) -> tuple[int, SessionState] | None:
        return await self._read(read.snapshot, session_id, at)

    async def rows(
        self, *, after: int = 0, matching: Filter | None = None, page_size: int | None = None
    ) -> AsyncGenerator[Stored, None]:
        next_after: int | None = after
        # The index has the stored phase of a session, so a row that is replaced is compared here.
        recovered, asked = self._recovered, matching or NO_FILTER
        wanted = NO_FILTER if recovered else asked
        count = lists.PAGE_ROWS if page_size is None else min(page_size, lists.PAGE_ROWS)
        while next_after is not None:
            page, next_after = await self._read(
                lists.page_of_rows, next_after, wanted, count, self._reported_damaged
            )
            for stored in page:
                shown = recovered.shown(stored)
                if wanted is asked or matches(shown.row, asked):
                    yield shown

    async def startup_rows(self) -> StartupRows:
        return await self._read(read.startup_rows, self._reported_damaged)

    async def raw_row(self, session_id: SessionId) -> RawRow | None:
        return await self._read(read.raw_row, session_id)

    async def damaged(self, *, known_readable: Collection[SessionId] = ()) -> list[SessionId]:
        return await self._read(read.damaged, known_readable)

    async def search(
        self,
        words: str,
        *,
        session_id: SessionId | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        return await self._read(lists.search, words, session_id, before, limit)

    async def stored_reply(self, scope: str, key: str) -> StoredReply | None:
        return await self._read(read.stored_reply, scope, key)

    async def sizes(self) -> Mapping[SessionId, int]:
        return await self._read(lists.sizes)

    async def backup(self, target: Path) -> int:
        return await self._read(backup.backup, target)

    async def processes(self) -> list[ProcessEntry]:
        return await self._read(read.processes)


async def _set_when_cancelled(event: Event) -> None:
    try:
        await trio.sleep_forever()
    finally:
        event.set()
