"""The store in a file, judged commit by commit, that dies when its time has come.

Rule 1: the referee is told in the same step in which the file has it, and of nothing else.
Rule 2: who is dead takes nothing and answers nobody: a call is never over. So nobody is told
        anything that the file does not have, nor anything at all any more.
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
from supervisor.store.sqlite import writing
from supervisor.store.sqlite.store import SqliteStore
from tests.simulation.sessions.referee import Referee

Args = ParamSpec("Args")
Answer = TypeVar("Answer")


class Dead(Exception):
    """Raised in the store's own thread, and by nobody else."""


class MortalStore(SqliteStore):
    """`dies_after` so many writes; then it calls `on_death`, once."""

    def __init__(
        self,
        path: Path,
        referee: Referee,
        *,
        dies_after: int | None,
        on_death: Callable[[], None],
    ) -> None:
        super().__init__(path, snapshot_every=20)
        self._referee = referee
        self._left = dies_after
        self._on_death = on_death
        # As in the attacks' own store: what the next commits shall come to.
        self.troubles: list[str] = []
        self.is_dead = False
        self._open()

    def close_now(self) -> None:
        """Whether it is dead or not: the file can be opened by the next."""
        self._close()

    @property
    def is_read(self) -> bool:
        """Whether somebody reads just now."""
        return self._eyes._limiter.borrowed_tokens > 0

    # Dying --------------------------------------------------------------------------------

    def _die_if_it_is_time(self) -> None:
        if self._left is not None and not self.is_dead:
            self._left -= 1
            self.is_dead = self._left < 0
        if self.is_dead:
            raise Dead

    async def _write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Args], Answer],
        *args: Args.args,
        **more: Args.kwargs,
    ) -> Answer:
        def do(connection: sqlite3.Connection) -> Answer:
            self._die_if_it_is_time()
            answer = work(connection, *args, **more)
            # Or after it was kept, and before anybody could be told.
            if self._left == 0 and random.random() < 0.5:
                self._die_if_it_is_time()
            return answer

        try:
            return await super()._write(do)
        except Dead:
            self._on_death()
            await trio.sleep_forever()
            raise

    # Telling the referee --------------------------------------------------------------------

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        trouble = self.troubles.pop() if self.troubles else None
        if trouble == "fails":
            raise OSError("the disk is gone")
        if trouble == "refuses":
            return [NotStorable("refused on purpose", hint="try again") for _ in writes]
        answers = await self._write(self._commit, writes)
        if trouble == "fails late":
            raise OSError("the disk is gone, after all was kept")
        return answers

    def _commit(
        self, connection: sqlite3.Connection, writes: Sequence[Write]
    ) -> list[SupervisorError | None]:
        answers = writing.commit(connection, writes, snapshot_every=self._snapshot_every)
        for write, refusal in zip(writes, answers, strict=True):
            if refusal is None:
                if write.removes is not None:
                    self._referee.deleted(write.removes)
                self._referee.committed(write)
        return answers

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        return await self._write(self._claim, session_ids)

    def _claim(
        self, connection: sqlite3.Connection, session_ids: Sequence[SessionId]
    ) -> list[Stored | None]:
        claimed = writing.claim(connection, session_ids)
        for stored in claimed:
            if stored is not None:
                self._referee.claimed(stored.row.id, stored.epoch)
        return claimed

    async def delete(self, session_id: SessionId) -> None:
        await self._write(self._delete, session_id)

    def _delete(self, connection: sqlite3.Connection, session_id: SessionId) -> None:
        writing.delete(connection, session_id)
        self._referee.deleted(session_id)
