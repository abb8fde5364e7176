"""The store in a file: the port, in threads of its own.

Rule 1: what is begun is carried through. A write whose asker is cancelled is written or not, and
        is never left half done in a thread.
Rule 2: readers are apart: they have connections and threads of their own, and each read is short.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import trio

from supervisor.core.errors import ConfigError, NotStorable, SupervisorError
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.store.filters import EVERYTHING, Filter
from supervisor.store.port import (
    AtStart,
    Hit,
    Kept,
    Leftovers,
    Process,
    RawRecord,
    RawRow,
    Stored,
    Write,
)
from supervisor.store.threads import Hand, Lent, Own, in_thread

from . import copies, pieces, reading, schema, writing
from .files import be_patient, open_reader, open_writer, trouble_of, whole_path
from .lock import Lock, locked
from .place import Place, refuse_other_names

Args = ParamSpec("Args")
Answer = TypeVar("Answer")

# So many reads at once: enough that a long one is in nobody's way.
READERS: Final = 4


@asynccontextmanager
async def open_sqlite(
    path: str | os.PathLike[str], *, snapshot_every: int = 200, own_thread: bool = False
) -> AsyncIterator[SqliteStore]:
    """The store in that file, made or brought up to date; closed again when the block is left.

    With `own_thread` it writes in one of its own, and not in those that trio lends.

    Raises `StoreLocked`, `StoreTooNew`, `ConfigError` if it is no store of ours, and
    `StoreDegraded` if it cannot be opened.
    """
    whole = whole_path(path)
    with locked(whole) as lock:
        pen: Hand = Own(f"store {whole.name}") if own_thread else Lent(1)
        try:
            store = SqliteStore(whole, pen, lock, snapshot_every=snapshot_every)
            await store.open()
            try:
                yield store
            finally:
                with trio.CancelScope(shield=True):  # short, and nothing in it waits for anybody
                    await store.close()
        finally:
            pen.rest()


async def restore_store(
    backup: str | os.PathLike[str], path: str | os.PathLike[str]
) -> Path | None:
    """See `copies.restore`; holds the lock meanwhile."""

    def do() -> Path | None:
        source, target = whole_path(backup), whole_path(path)
        copies.refuse_target(target)
        with locked(target):
            return copies.restore(source, target)

    return await in_thread(do)


class SqliteStore:
    """See `port.Store`."""

    def __init__(
        self,
        path: Path,
        pen: Hand | None = None,
        lock: Lock | None = None,
        *,
        snapshot_every: int = 200,
    ) -> None:
        self.path = path
        # That nobody else writes; None if it was made sure of in another way.
        self._lock = lock
        self._snapshot_every = snapshot_every
        self._writer: sqlite3.Connection | None = None
        self._place: Place | None = None
        self._known = writing.Known()
        # One connection in one thread at a time; with limits of our own, for trio's are shared.
        self._pen: Hand = pen or Lent(1)
        self._eyes = Lent(READERS)
        # Whether something was deleted since it was last tidied.
        self._is_untidy = False
        # Whether some of that was done already.
        self._is_tidying = False
        # Whether it waits a while for somebody else's lock.
        self._is_patient = True
        # Sessions that cannot be read, and of which the log has said so: once is enough.
        self._named: set[SessionId] = set()
        # Readers that nobody uses just now.
        self._free: list[sqlite3.Connection] = []

    async def open(self) -> None:
        """Open the file; raises why it cannot be."""
        await self._in_thread(self._pen, self._open)

    def _open(self) -> None:
        try:
            copies.clear_away_unfinished(self.path)
            if self.path.exists():
                schema.refuse_unless_ours(self.path, may_be_new=True)
                refuse_other_names(self.path)
            self._writer = open_writer(self.path)
            self._place = Place(self.path)
        except OSError as error:
            raise ConfigError(
                f"{self.path.name} cannot be opened: {error.strerror}",
                hint="look at its owner and mode, and at those of its folder",
            ) from error
        try:
            schema.refuse_foreign(self._writer, self.path)
            if 0 < schema.version_of(self._writer) < schema.VERSION:
                copies.copy_before_migration(self._writer, self.path)
            schema.migrate(self._writer)
        except BaseException:
            self._close()
            raise

    async def close(self) -> None:
        """Close all connections; the last one to close moves the WAL into the file."""
        await self._in_thread(self._pen, self._close)

    def _close(self) -> None:
        if self._is_untidy and self._writer is not None:
            with contextlib.suppress(sqlite3.Error):
                pieces.tidy_all(self._writer)
        for connection in (*self._free, *([self._writer] if self._writer is not None else [])):
            connection.close()
        self._free, self._writer = [], None

    # Threads ------------------------------------------------------------------------------

    async def _in_thread(self, hand: Hand, work: Callable[[], Answer]) -> Answer:
        try:
            return await hand.do(work)
        except sqlite3.Error as error:
            if "Could not decode to UTF-8" in str(error):  # a word that is none: the file is well
                raise NotStorable(
                    f"something in {self.path.name} cannot be read: {error}",
                    hint="restore a backup, or look at it with sqlite3",
                ) from error
            trouble = trouble_of(error, self.path)
            if trouble is None:
                raise
            raise trouble from error

    async def _write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Args], Answer],
        *args: Args.args,
        **more: Args.kwargs,
    ) -> Answer:
        def do() -> Answer:
            writer = self._writer
            assert writer is not None
            place = self._place
            assert place is not None
            self._check_place()
            try:
                answer = work(writer, *args, **more)
            except sqlite3.Error:
                be_patient(writer, patient=False)
                self._is_patient = False
                raise
            # What went into a file that nobody finds any more is acknowledged to nobody.
            place.check(is_certain=False)
            if not self._is_patient:
                be_patient(writer, patient=True)
                self._is_patient = True
            return answer

        return await self._in_thread(self._pen, do)

    async def _read(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Args], Answer],
        *args: Args.args,
        **more: Args.kwargs,
    ) -> Answer:
        def do() -> Answer:
            connection = self._free.pop() if self._free else self._open_reader()
            try:
                answer = work(connection, *args, **more)
            except BaseException:
                connection.close()  # whatever is wrong with it, the next one gets another
                raise
            if self._writer is None:
                connection.close()  # we were closed meanwhile, and nobody else would
            else:
                self._free.append(connection)
            return answer

        return await self._in_thread(self._eyes, do)

    def _check_place(self) -> None:
        """Raise `StoreDegraded` if the file is not what others find, or is somebody else's."""
        if self._place is not None:
            self._place.check(is_certain=True)
        if self._lock is not None:
            self._lock.check()

    def _open_reader(self) -> sqlite3.Connection:
        if self._place is not None:
            self._place.check(is_certain=True)  # or it would read what is in its place
        return open_reader(self.path)

    # Writing ------------------------------------------------------------------------------

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        every = self._snapshot_every
        if any(write.removes for write in writes):
            self._note_untidy()
        return await self._write(writing.commit, writes, snapshot_every=every, known=self._known)

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        return await self._write(writing.claim, session_ids, self._known)

    async def bring(self, session_id: SessionId, records: Sequence[Record]) -> None:
        await self._write(pieces.bring, session_id, records)

    async def delete(self, session_id: SessionId) -> None:
        self._note_untidy()
        await self._write(writing.delete, session_id, self._known)

    def _note_untidy(self) -> None:
        # What was tidied so far was without this.
        self._is_untidy, self._is_tidying = True, False

    async def clear_away(self) -> bool:
        self._note_untidy()
        return await self._write(pieces.clear_away)

    async def tidy(self) -> bool:
        if not self._is_untidy:
            return False
        begin, self._is_tidying = not self._is_tidying, True
        self._is_tidying = self._is_untidy = await self._write(pieces.tidy, begin=begin)
        return self._is_untidy

    async def leftovers(self) -> Leftovers:
        found = await self._write(pieces.leftovers)
        self._is_untidy = found.untidy or found.unfinished
        return found

    async def probe(self) -> None:
        await self._write(writing.probe)

    async def look(self) -> None:
        if self._place is not None:
            await self._in_thread(self._pen, self._check_place)

    async def note_process(self, process: Process) -> None:
        await self._write(writing.note_process, process)

    async def forget_process(self, process: Process) -> None:
        await self._write(writing.forget_process, process)

    # Reading ------------------------------------------------------------------------------

    async def read(self, session_id: SessionId) -> Stored | None:
        return await self._read(reading.read_one, session_id)

    async def records(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        limit: int | None = None,
        turn: TurnId | None = None,
    ) -> list[Record]:
        return await self._read(reading.records, session_id, after, limit, turn)

    async def records_of_input(self, session_id: SessionId, input_id: InputId) -> list[Record]:
        return await self._read(reading.records_of_input, session_id, input_id)

    async def all_records(
        self, *, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Record]]:
        return await self._read(reading.all_records, after, limit)

    async def last_position(self) -> int:
        return await self._read(reading.last_position)

    async def records_of(self, kinds: Collection[str]) -> list[Record]:
        return await self._read(reading.records_of, kinds)

    async def raw_records(self, session_id: SessionId) -> list[RawRecord]:
        return await self._read(reading.raw_records, session_id)

    async def snapshot(self, session_id: SessionId, *, at: int) -> tuple[int, Session] | None:
        return await self._read(reading.snapshot, session_id, at)

    async def rows(
        self, *, after: int = 0, fitting: Filter | None = None, at_once: int | None = None
    ) -> AsyncGenerator[Stored, None]:
        next_after: int | None = after
        count = reading.PAGE_ROWS if at_once is None else min(at_once, reading.PAGE_ROWS)
        while next_after is not None:
            page, next_after = await self._read(
                reading.page_of_rows, next_after, fitting or EVERYTHING, count, self._named
            )
            for stored in page:
                yield stored

    async def at_start(self) -> AtStart:
        return await self._read(reading.at_start, self._named)

    async def raw_row(self, session_id: SessionId) -> RawRow | None:
        return await self._read(reading.raw_row, session_id)

    async def damaged(self, *, besides: Collection[SessionId] = ()) -> list[SessionId]:
        return await self._read(reading.damaged, besides)

    async def search(
        self,
        words: str,
        *,
        session_id: SessionId | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        return await self._read(reading.search, words, session_id, before, limit)

    async def kept(self, scope: str, key: str) -> Kept | None:
        return await self._read(reading.kept, scope, key)

    async def sizes(self) -> Mapping[SessionId, int]:
        return await self._read(reading.sizes)

    async def backup(self, target: Path) -> int:
        return await self._read(copies.backup, target)

    async def processes(self) -> list[Process]:
        return await self._read(reading.processes)
