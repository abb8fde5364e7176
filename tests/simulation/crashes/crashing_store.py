"""A file store that reports each commit to the oracle and crashes on request.

Rule 1: the oracle is notified in the same step in which the file has the commit.
Rule 2: a crashed store accepts nothing and answers nothing: a call never returns. So no caller
        learns anything that the file does not have.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import trio

from supervisor.core.errors import NotStorable, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.port import Stored, Write
from supervisor.store.sqlite import write as sqlite_write
from supervisor.store.sqlite.store import SqliteStore
from tests.simulation.oracle import Oracle

Args = ParamSpec("Args")
Answer = TypeVar("Answer")


class StoreCrashed(Exception):
    """Raised in the thread of the store only."""


class CrashingStore(SqliteStore):
    """Store that crashes after `crash_after` writes and calls `on_crash` once."""

    def __init__(
        self,
        path: Path,
        oracle: Oracle,
        *,
        crash_after: int | None,
        on_crash: Callable[[], None],
    ) -> None:
        super().__init__(path, snapshot_every=20)
        self._referee = oracle
        self._left = crash_after
        self._on_death = on_crash
        # Faults of the next commits, as in `ObservedStore`.
        self.faults: list[str] = []
        self.is_crashed = False
        self._open()

    def close_now(self) -> None:
        """Close the file, so that the next run can open it."""
        self._close()

    @property
    def is_read(self) -> bool:
        """True while a read is running."""
        return self._readers._limiter.borrowed_tokens > 0

    # Crashing -----------------------------------------------------------------------------

    def _crash_if_due(self) -> None:
        if self._left is not None and not self.is_crashed:
            self._left -= 1
            self.is_crashed = self._left < 0
        if self.is_crashed:
            raise StoreCrashed

    async def _write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Args], Answer],
        *args: Args.args,
        **more: Args.kwargs,
    ) -> Answer:
        def do(connection: sqlite3.Connection) -> Answer:
            self._crash_if_due()
            answer = work(connection, *args, **more)
            # Or after the commit, before the caller gets its answer.
            if self._left == 0 and random.random() < 0.5:
                self._crash_if_due()
            return answer

        try:
            return await super()._write(do)
        except StoreCrashed:
            self._on_death()
            await trio.sleep_forever()
            raise

    # Reporting to the oracle -----------------------------------------------------------------

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        fault = self.faults.pop() if self.faults else None
        if fault == "fails":
            raise OSError("the disk failed")
        if fault == "refuses":
            return [NotStorable("refused on purpose", hint="try again") for _ in writes]
        answers = await self._write(self._commit, writes)
        if fault == "fails late":
            raise OSError("the disk failed after the commit")
        return answers

    def _commit(
        self, connection: sqlite3.Connection, writes: Sequence[Write]
    ) -> list[SupervisorError | None]:
        answers = sqlite_write.commit(connection, writes, snapshot_every=self._snapshot_every)
        for write, refusal in zip(writes, answers, strict=True):
            if refusal is None:
                if write.deletes is not None:
                    self._referee.deleted(write.deletes)
                self._referee.committed(write)
        return answers

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        return await self._write(self._claim, session_ids)

    def _claim(
        self, connection: sqlite3.Connection, session_ids: Sequence[SessionId]
    ) -> list[Stored | None]:
        claimed = sqlite_write.claim(connection, session_ids)
        for stored in claimed:
            if stored is not None:
                self._referee.claimed(stored.row.id, stored.epoch)
        return claimed

    async def delete(self, session_id: SessionId) -> None:
        await self._write(self._delete, session_id)

    def _delete(self, connection: sqlite3.Connection, session_id: SessionId) -> None:
        sqlite_write.delete(connection, session_id)
        self._referee.deleted(session_id)
