"""The store port on an SQLite file, run in threads.

Rule 1: a started write runs to its end. If its caller is cancelled, the write is still committed or
        refused, and no thread is left running.
Rule 2: readers have separate connections and threads, and each read is short.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import trio

from supervisor.core.errors import ConfigError, SupervisorError
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId
from supervisor.core.steady_time import ClockReading
from supervisor.core.store_finding import StoreFinding
from supervisor.store.port import (
    ProcessEntry,
    Stored,
    Unfinished,
    Write,
)
from supervisor.store.threads import DedicatedThread, StoreThread, TrioThreads, run_in_thread

from . import backup, bulk, cache, schema, space, word_index, write
from .checkpoints import WalLength, move_wal
from .file_check import find_lost_records, last_position, refuse_if_lost
from .files import (
    WRITE_IS_RETRIED,
    FileIdentity,
    disk_full_error,
    is_disk_full,
    open_writer,
    refuse_hard_links,
    resolve_path,
    set_busy_timeout,
)
from .lock import Lock, locked, read_notes
from .reader import SqliteReader

Args = ParamSpec("Args")
Answer = TypeVar("Answer")


@asynccontextmanager
async def open_sqlite(
    path: str | os.PathLike[str], *, snapshot_every: int = 200, dedicated_thread: bool = False
) -> AsyncIterator[SqliteStore]:
    """Open a store, created or migrated if necessary; close it when the block is left.

    With `dedicated_thread` the writer runs in a dedicated thread instead of trio's.

    Raise `StoreLocked` if another supervisor has the file open, `StoreTooNew` if a newer version
    wrote it, `ConfigError` if it is not a store, and `StoreDegraded` if it cannot be opened.
    """
    whole = resolve_path(path)
    with locked(whole) as lock:
        writer_thread: StoreThread = (
            DedicatedThread(f"understudy store {whole.name}")
            if dedicated_thread
            else TrioThreads(1)
        )
        try:
            store = SqliteStore(whole, writer_thread, lock, snapshot_every=snapshot_every)
            await store.open()
            try:
                yield store
            finally:
                with trio.CancelScope(shield=True):  # short, and waits for nothing but the disk
                    await store.close()
        finally:
            writer_thread.close()


async def restore_store(
    source: str | os.PathLike[str], path: str | os.PathLike[str]
) -> Path | None:
    """Restore a backup while holding the lock; see `backup.restore`."""

    def do() -> Path | None:
        copy, target = resolve_path(source), resolve_path(path)
        backup.check_restore_target(target)
        with locked(target) as lock:
            old = backup.restore(copy, target)
            lock.note_position(0)  # the backup may be older, on purpose
            return old

    return await run_in_thread(do)


class SqliteStore(SqliteReader):
    """Store in an SQLite file; see `port.Store`."""

    def __init__(
        self,
        path: Path,
        writer_thread: StoreThread | None = None,
        lock: Lock | None = None,
        *,
        snapshot_every: int = 200,
    ) -> None:
        super().__init__(path)
        # Excludes other writers; None if the caller excludes them in another way.
        self._lock = lock
        self._snapshot_every = snapshot_every
        self._session_cache = cache.SessionCache()
        self._wal_length = WalLength()
        # One thread at a time per connection; with our own limits, because trio's is shared.
        self._writer_thread: StoreThread = writer_thread or TrioThreads(1)
        # Whether records were deleted since the index was last optimized.
        self._index_is_stale = False
        # Whether an optimization has begun and is not complete.
        self._is_optimizing = False
        # Whether records were deleted since free pages were last returned to the disk.
        self._may_shrink = False
        # Whether SQLite waits for the lock of another connection; not after an error.
        self._waits_when_busy = True
        self._last_run = read_notes(path) if lock is None else lock.previous
        self.last_clock = self._last_run.clock
        # Loss that was found when the file was opened.
        self.findings: tuple[StoreFinding, ...] = ()

    async def open(self) -> None:
        """Open and migrate the file; raise as `open_sqlite` does."""
        await self._run_in_thread(self._writer_thread, self._open)

    def _open(self) -> None:
        try:
            backup.remove_unfinished(self.path)
            refuse_if_lost(self.path)
            if self.path.exists():
                schema.refuse_unless_ours(self.path, may_be_new=True)
                refuse_hard_links(self.path)
            self._writer = open_writer(self.path)
            self._file_identity = FileIdentity(self.path)
        except OSError as error:
            if is_disk_full(error, self.path):
                raise disk_full_error(f"the store {self.path.name} cannot be opened") from error
            raise ConfigError(
                f"{self.path.name} cannot be opened: {error.strerror}",
                hint="check its owner and mode, and those of its directory",
            ) from error
        try:
            schema.refuse_foreign(self._writer, self.path)
            if 0 < schema.version_of(self._writer) < schema.VERSION:
                backup.copy_before_migration(self._writer, self.path)
            schema.migrate(self._writer)
            if word_index.is_worn(self._writer):
                word_index.rebuild(self._writer)
            position = last_position(self._writer)
            self.findings = find_lost_records(self.path, position, self._last_run)
        except BaseException:
            self._close()
            raise
        if self._lock is not None:
            self._lock.note_position(position)
            self._lock.note_open(is_open=True)

    async def close(self) -> None:
        """Close all connections; closing the last one moves the WAL into the file."""
        await self._run_in_thread(self._writer_thread, self._close)

    def _close(self) -> None:
        if self._index_is_stale and self._writer is not None:
            with contextlib.suppress(sqlite3.Error):
                bulk.optimize_whole_index(self._writer)
                space.return_pages_at_close(self._writer)
        for connection in (
            *self._idle_connections,
            *([self._writer] if self._writer is not None else []),
        ):
            connection.close()
        self._idle_connections, self._writer = [], None
        if self._lock is not None:
            self._lock.note_open(is_open=False)

    # Threads ------------------------------------------------------------------------------

    async def _write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Args], Answer],
        *args: Args.args,
        **more: Args.kwargs,
    ) -> Answer:
        def do() -> Answer:
            writer = self._writer
            assert writer is not None
            identity = self._file_identity
            assert identity is not None
            self._check_file_and_lock()
            try:
                answer = work(writer, *args, **more)
            except sqlite3.Error:
                set_busy_timeout(writer, patient=False)
                self._waits_when_busy = False
                raise
            # A write into a file that was deleted meanwhile is not acknowledged.
            identity.check(is_surely_unwritten=False)
            if self._lock is not None:
                self._lock.note_position(last_position(writer))
            if not self._waits_when_busy:
                set_busy_timeout(writer, patient=True)
                self._waits_when_busy = True
            return answer

        return await self._run_in_thread(self._writer_thread, do, then=WRITE_IS_RETRIED)

    def _check_file_and_lock(self) -> None:
        """Raise `StoreDegraded` if the file was replaced or deleted, or its lock is lost."""
        if self._file_identity is not None:
            self._file_identity.check(is_surely_unwritten=True)
        if self._lock is not None:
            self._lock.check()

    # Writing ------------------------------------------------------------------------------

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        every = self._snapshot_every
        if any(write.deletes for write in writes):
            self._mark_index_stale()
        try:
            return await self._write(
                write.commit, writes, snapshot_every=every, known=self._session_cache
            )
        finally:
            self._totals.note_writes(writes)
            self._wal_length.add_commit(len(writes))

    @property
    def needs_checkpoint(self) -> bool:
        return self._wal_length.needs_checkpoint

    async def run_checkpoint(self) -> None:
        self._wal_length.reset()
        await self._write(move_wal)

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        return await self._write(write.claim, session_ids, self._session_cache)

    async def insert_chunk(self, session_id: SessionId, records: Sequence[AnyRecord]) -> None:
        await self._write(bulk.insert_chunk, session_id, records)

    async def delete(self, session_id: SessionId) -> None:
        self._mark_index_stale()
        try:
            await self._write(write.delete, session_id, self._session_cache)
        finally:
            self._totals.note((session_id,))

    def _mark_index_stale(self) -> None:
        # An optimization that has begun does not cover the new deletion.
        self._index_is_stale, self._is_optimizing = True, False

    async def purge_deleted(self) -> bool:
        self._mark_index_stale()
        return await self._write(bulk.purge_deleted)

    async def optimize_index(self) -> bool:
        if self._index_is_stale:
            begin, self._is_optimizing = not self._is_optimizing, True
            self._is_optimizing = self._index_is_stale = await self._write(
                bulk.optimize_index, begin=begin
            )
            self._may_shrink = True
            if self._index_is_stale:
                return True
        if self._may_shrink:
            self._may_shrink = await self._write(space.return_pages)
        return self._may_shrink

    async def find_unfinished(self) -> Unfinished:
        found = await self._write(bulk.find_unfinished)
        self._index_is_stale = found.needs_optimize or found.needs_purge
        return found

    async def probe(self) -> None:
        await self._write(write.probe)

    async def check_file(self) -> None:
        if self._file_identity is not None:
            await self._run_in_thread(self._writer_thread, self._check_file_and_lock)

    async def note_recovered(self) -> None:
        if self._lock is not None:
            await self._run_in_thread(self._writer_thread, self._lock.note_recovered)

    async def note_clock(self, reading: ClockReading) -> None:
        lock = self._lock
        if lock is not None:
            await self._run_in_thread(self._writer_thread, lambda: lock.note_clock(reading))

    async def record_process(self, process: ProcessEntry) -> None:
        await self._write(write.record_process, process)

    async def forget_process(self, process: ProcessEntry) -> None:
        await self._write(write.forget_process, process)
