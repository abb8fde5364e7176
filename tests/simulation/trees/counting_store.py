"""A store for long runs: it counts rows and keeps no records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs
import pytest

import supervisor.runtime
from supervisor import Phase, Record
from supervisor.core.errors import SupervisorError
from supervisor.core.facts import as_record
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.state import SessionState as Row
from supervisor.store.codec import decode
from supervisor.store.memory import MemoryStore
from supervisor.store.memory_read import SessionData
from supervisor.store.port import Write

_AT_REST: Final = (Phase.STOPPED, Phase.SUSPENDED)


@attrs.define(eq=False)
class RowCounter:
    """Counts of the rows, with their maxima."""

    violations: list[str] = attrs.Factory(list)
    created: Callable[[Row], None] | None = None
    noted: Callable[[Row, Record], None] | None = None
    rows: dict[SessionId, Row] = attrs.Factory(dict)
    up: dict[SessionId, int] = attrs.Factory(dict)
    below: dict[SessionId, int] = attrs.Factory(dict)
    live: int = 0
    running: int = 0
    most_live: int = 0
    most_running: int = 0
    turns: int = 0
    restarts: int = 0
    crashed: int = 0
    _restarted: dict[SessionId, list[float]] = attrs.Factory(dict)

    def take(self, write: Write) -> None:
        for part in (write, write.linked_write):
            if part is not None and part.row is not None:
                self.take_row(part.row)
            for record in part.records if part is not None else ():
                self._take_record(as_record(record))

    def take_row(self, row: Row) -> None:
        before = self.rows.get(row.id)
        self.rows[row.id] = row
        if before is not None:
            self._count(before, -1)
        self._count(row, 1)
        self.most_live = max(self.most_live, self.live)
        self.most_running = max(self.most_running, self.running)
        if before is None and self.created is not None:
            self.created(row)

    def _count(self, row: Row, by: int) -> None:
        parent, root = row.lineage.parent, row.lineage.root
        live = row.phase is not Phase.STOPPED
        self.live += by * live
        self.running += by * (row.turn is not None)
        if parent is not None and root is not None:
            self.up[parent] = self.up.get(parent, 0) + by * (row.phase not in _AT_REST)
            self.below[root] = self.below.get(root, 0) + by * live
            limits = self.rows[root].limits
            if by > 0 and limits is not None:
                self.check(self.up[parent] <= limits.max_children, f"{parent}: {self.up[parent]}")
                self.check(
                    self.below[root] <= limits.max_descendants, f"{root}: {self.below[root]}"
                )

    def _take_record(self, record: Record) -> None:
        row = self.rows[record.session_id]
        if record.kind == "turn_started":
            self.turns += 1
        elif record.kind == "agent_restarting":
            self.restarts += 1
            rule = row.terms.restart
            recent = self._restarted.get(row.id, [])
            recent = [at for at in recent if record.at - at <= rule.within_seconds]
            self._restarted[row.id] = [*recent, record.at]
            self.check(len(recent) < rule.max_restarts, f"{row.id}: {len(recent) + 1} restarts")
        elif record.kind == "session_resumed" and not record.body["woken"]:
            self._restarted.pop(row.id, None)  # a resume resets the restart limit
        elif record.kind == "session_stopped":
            self.crashed += record.body["reason"] == "agent_crashed"
        if self.noted is not None:
            self.noted(row, record)

    def check(self, holds: bool, message: str) -> None:  # noqa: FBT001 - as in assert
        if not holds:
            self.violations.append(message)


@attrs.frozen
class SavedSession:
    """A session of a store without its records; the row is as stored."""

    row: str
    epoch: int
    last_seq: int


class CountingStore(MemoryStore):
    """Store that keeps the position of each record and not its content."""

    def __init__(self, counter: RowCounter) -> None:
        super().__init__()
        self._counter = counter

    def _commit(self, write: Write) -> SupervisorError | None:
        refusal = super()._commit(write)
        if refusal is None:
            self._counter.take(write)
        return refusal

    def _append_records(self, data: SessionData, records: list[bytes]) -> None:
        super()._append_records(data, records)
        if records:
            self._records[-len(records) :] = [None] * len(records)

    def save(self) -> list[SavedSession]:
        """Return all sessions, in the order of their creation."""
        return [
            SavedSession(data.row.decode(), data.epoch, len(data.positions))
            for data in self._sessions.values()
        ]

    def load(self, sessions: Sequence[SavedSession]) -> None:
        """Add sessions of an earlier run, and count their rows."""
        self._records = [None]
        for saved in sessions:
            data = SessionData()
            self._last_number += 1
            data.number, data.epoch, data.row = self._last_number, saved.epoch, saved.row.encode()
            data.positions.extend([1] * saved.last_seq)  # no position is read
            row = decode(data.row, Row)
            self._sessions[row.id] = data
            self._counter.take_row(row)

    async def records(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        limit: int | None = None,
        turn: TurnId | None = None,
    ) -> list[Record]:
        """Return an empty list: no records are kept."""
        return []


@contextmanager
def counted_by(counter: RowCounter) -> Iterator[CountingStore]:
    """Let the next supervisor write to a counting store, and yield it."""
    store = CountingStore(counter)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
        yield store
