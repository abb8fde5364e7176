"""The port of all stores: the `Store` protocol, and the values it takes and returns.

Rule 1: every store passes the same contract tests.
Rule 2: every store returns the same sessions for the same filter. A store may use its own index,
        but `filters.matches` defines the meaning.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import attrs

from supervisor.core.errors import SupervisorError
from supervisor.core.facts import AnyRecord
from supervisor.core.frozen_struct import FrozenStruct
from supervisor.core.ids import CallId, InputId, SessionId, TurnId
from supervisor.core.match import IdKind, Place
from supervisor.core.names import ROOT_SCOPE
from supervisor.core.records import Record
from supervisor.core.state import SessionState
from supervisor.core.steady_time import ClockReading
from supervisor.core.totals import Totals

from .feed_reads import FeedReads
from .list_filter import Filter


@attrs.frozen
class StoredReply:
    """The reply stored under an idempotency key; a repeated request gets it again.

    It is deleted with the session whose write stored it, and with the session that `scope` names
    (before a slash). `fingerprint` differs for a different request under the same key.
    """

    scope: str
    key: str
    fingerprint: str
    answer: Mapping[str, Any]


class Write(FrozenStruct):
    """An atomic write of one session.

    `records` continue the numbers of the stored ones without a gap. `row` is None when the records
    change no row. `linked_write` belongs to another session and is part of the same commit, so both
    are stored or neither. `deletes` names a session that is deleted in the same commit.
    """

    session_id: SessionId
    epoch: int
    records: tuple[AnyRecord, ...]
    row: SessionState | None = None
    stored_reply: StoredReply | None = None
    linked_write: Write | None = None
    deletes: SessionId | None = None

    @property
    def parts(self) -> Sequence[Write]:
        """The write and the writes linked to it, each of one session."""
        if self.linked_write is None:
            return (self,)
        return (self, *self.linked_write.parts)


@attrs.frozen
class Stored:
    """A stored session: its row with epoch, last seq and creation number."""

    row: SessionState
    epoch: int
    last_seq: int
    number: int  # counts creations from 1; never reused


class SuspendedRow(NamedTuple):
    """A suspended or stopped session without live descendants: the fields that start-up needs.

    `key` is None also for an archived session, which no longer holds its key. `name` is the name
    that it holds, in the scope of `core.names.name_scope`.
    """

    id: SessionId
    is_stopped: bool
    key: str | None
    name: str | None = None
    name_scope: str = ROOT_SCOPE


class StartupRows(NamedTuple):
    """The rows that start-up needs: suspended sessions in short form, the others decoded."""

    suspended: list[SuspendedRow]
    loaded: list[Stored]


class Unfinished(NamedTuple):
    """Work that an earlier writer did not finish."""

    needs_purge: bool  # deleted sessions still have records
    needs_optimize: bool  # a full-text index still contains deleted text


@attrs.frozen
class RawRecord:
    """A record as stored, undecoded and possibly damaged; for examination and repair."""

    position: int
    session_id: Any
    seq: Any
    at: Any
    turn_id: Any
    kind: Any
    body: Any


@attrs.frozen
class RawRow:
    """A row as stored, undecoded and possibly damaged; for examination and repair.

    `key` is None also for an archived session, which no longer holds its key.
    """

    session_id: SessionId
    epoch: int
    key: str | None
    root: SessionId
    row: bytes


@attrs.frozen
class Hit:
    """A record that matches a search; `snippet` is the text around the matched words.

    The matched words are marked with `[` and `]`.
    """

    position: int
    session_id: SessionId
    seq: int
    at: float
    turn_id: TurnId | None
    kind: str
    snippet: str


@attrs.frozen
class ProcessEntry:
    """A process started for a session: stored before it is used, removed when it is reaped."""

    session_id: SessionId
    pid: int
    start_time: int
    boot_id: str


def is_snapshot_due(before: int, last: int, every: int) -> bool:
    """Return True if the records passed a multiple of `every`, so that a snapshot is stored."""
    return before // every != last // every


def is_of_work(record: AnyRecord, turn: TurnId | None, call: CallId | None) -> bool:
    """Return True if the record is of the turn, and starts the tool call, if given."""
    if turn is not None and record.turn_id != turn:
        return False
    return call is None or (record.kind == "tool_call" and record.body["call_id"] == call)


class Store(FeedReads, Protocol):
    """Rows, records and stored replies.

    Only the writer calls the writing methods, one call at a time. Any task may read, and sees
    committed data only. Reading and writing raise `StoreDegraded` if the disk is full, missing or
    locked by another process; the same call may succeed later and is safe to repeat. A write whose
    fsync failed may still be on disk after a power loss, so its outcome is unknown until a later
    write succeeds.
    """

    # The reading of the clocks that an earlier supervisor of the store noted last.
    last_clock: ClockReading | None

    # Writing ------------------------------------------------------------------------------

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        """Commit the writes together; return for each write None or its error.

        A refused write does not affect the others. `Fenced`: the write's epoch is not the session's
        current epoch. `NotStorable`: the records do not continue the stored ones, or cannot be
        encoded.
        """

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        """Take ownership of the sessions: increase the epoch of each by one.

        Writes of an earlier owner are then refused. Return each stored session, or None if it is
        missing.
        """

    async def insert_chunk(self, session_id: SessionId, records: Sequence[AnyRecord]) -> None:
        """Store the next records of a new session that is too large for one commit.

        They become visible when a `commit` stores the rest and the row. Until then, readers of all
        records see nothing that was written after them. `delete` abandons the insert. Raise
        `NotStorable` if a record cannot be encoded or does not continue the stored ones.
        """

    async def delete(self, session_id: SessionId) -> None:
        """Delete a session for all readers; `purge_deleted` removes the rest of its data."""

    async def purge_deleted(self) -> bool:
        """Remove one batch of data of deleted sessions; return True if there is more."""

    @property
    def needs_checkpoint(self) -> bool:
        """True if `run_checkpoint` should be called when no write waits."""

    async def run_checkpoint(self) -> None:
        """Move committed writes to their final place in the file."""

    async def optimize_index(self) -> bool:
        """Remove one batch of deleted text from the index, then return one batch of free space.

        Return True if there is more.
        """

    async def find_unfinished(self) -> Unfinished:
        """Delete partly inserted sessions of an earlier writer; return the work that remains."""

    async def probe(self) -> None:
        """Write without changing anything; raise `StoreDegraded` if that fails."""

    async def check_file(self) -> None:
        """Raise `StoreDegraded` if the file was deleted or replaced since it was opened."""

    async def note_clock(self, reading: ClockReading) -> None:
        """Note a reading of the clocks beside the store; it need not survive a power loss."""

    async def record_process(self, process: ProcessEntry) -> None:
        """Store the identity of a process, for recovery after a crash of the supervisor."""

    async def forget_process(self, process: ProcessEntry) -> None:
        """Remove the entry of a process that has been reaped."""

    async def note_recovered(self) -> None:
        """Note for readers in other processes that recovery is written."""

    # Reading ------------------------------------------------------------------------------

    def show_recovered(self, rows: Mapping[SessionId, SessionState]) -> bool:
        """Make `read`, `rows` and `totals` use these rows instead of the stored ones; return True.

        They are the outcome of a recovery that cannot be written. Ignore them and return False
        while another supervisor holds the store and has recovered it: then the stored rows are
        current.
        """

    async def read(self, session_id: SessionId) -> Stored | None:
        """Return the session as of its last commit; raise `NotStorable` for a damaged row."""

    async def records(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        limit: int | None = None,
        turn: TurnId | None = None,
    ) -> list[Record]:
        """Return the records from number `after + 1` on, or only those of one turn."""

    async def ran(self, session_id: SessionId, turn: TurnId | None, call: CallId | None) -> bool:
        """Return True if the session has records of that turn, and of that tool call, if given."""

    async def records_of_input(self, session_id: SessionId, input_id: InputId) -> list[Record]:
        """Return the records of an input, from its acceptance to the end of its turn.

        Empty if the input was never accepted. The cost does not grow with the earlier history.
        """

    async def all_records(
        self, *, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Record]]:
        """Return the records of all sessions in commit order, each with its position."""

    async def last_position(self) -> int:
        """Return the position of the last record that `all_records` returns, or 0."""

    async def highest_position(self) -> int:
        """Return the highest position that any record has had, a deleted one included, or 0."""

    async def records_of_kinds(self, kinds: Collection[str]) -> list[Record]:
        """Return all records of these kinds, ordered by session and number.

        It reads all of them at once, so it is only for start-up and for rare kinds.
        """

    async def raw_records(self, session_id: SessionId) -> list[RawRecord]:
        """Return the undecoded records of a session in commit order."""

    async def snapshot(self, session_id: SessionId, *, at: int) -> tuple[int, SessionState] | None:
        """Return the latest snapshot at or before number `at`, with its number.

        An unreadable snapshot is skipped.
        """

    def rows(
        self, *, after: int = 0, matching: Filter | None = None, page_size: int | None = None
    ) -> AsyncGenerator[Stored, None]:
        """Yield the matching sessions with a creation number above `after`, in that order.

        `page_size` is the number of sessions the caller expects to read.
        """

    async def startup_rows(self) -> StartupRows:
        """Return all sessions as of one moment, in creation order.

        Suspended and stopped sessions without live descendants are not decoded. A damaged row is
        listed with them and logged.
        """

    async def raw_row(self, session_id: SessionId) -> RawRow | None:
        """Return the undecoded row of a session."""

    async def damaged(self, *, known_readable: Collection[SessionId] = ()) -> list[SessionId]:
        """Return the sessions whose rows cannot be decoded, in creation order.

        `known_readable` names sessions that the caller has just decoded; their rows are skipped.
        """

    async def find_ids(
        self,
        kind: IdKind,
        text: str,
        place: Place,
        *,
        session_id: SessionId | None = None,
        limit: int = 20,
    ) -> list[tuple[str, SessionId]]:
        """Return the ids of a kind of which the text is a part, in order, each with its session.

        With `session_id`, only those of that session. Ids of calls are found only there, and ids of
        requests never. The records of a session are read only for its calls, or for an end.
        """

    async def sessions_named(
        self, name: str, *, root: SessionId | None = None, limit: int = 20
    ) -> list[Stored]:
        """Return the sessions with exactly this name, unarchived ones first, then the newest first.

        With `root`, only those of the tree of that root. A damaged row is left out.
        """

    async def totals(self) -> Totals:
        """Return counts and sums over all sessions, as of all commits before this call.

        The first call reads every row; a later call reads those that have changed, and a few.
        """

    async def search(
        self,
        words: str,
        *,
        session_id: SessionId | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        """Return the records whose text contains all words, latest first.

        Only records at positions below `before`, where the previous page ended, are returned.
        """

    async def stored_reply(self, scope: str, key: str) -> StoredReply | None:
        """Return the reply stored under a key, or None."""

    async def sizes(self) -> Mapping[SessionId, int]:
        """Return the size in bytes of the records of each session."""

    async def backup(self, target: Path) -> int:
        """Copy the store into a new file, as of one moment; return the size in bytes.

        Raise `ConfigError` if the copy fails or the file exists.
        """

    async def processes(self) -> list[ProcessEntry]:
        """Return the recorded processes."""
