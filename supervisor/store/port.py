"""What a store can do, whatever it is made of. One contract test suite holds for all of them."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import attrs

from supervisor.core.errors import SupervisorError
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.records import Record
from supervisor.core.session import Session

from .filters import Filter


@attrs.frozen
class Kept:
    """An answer kept under an idempotency key: the same request gets it again.

    It goes when the session goes whose write brought it, or whose id `scope` is or begins with,
    before a slash. `fingerprint` tells the same request from
    another one that came with the same key.
    """

    scope: str
    key: str
    fingerprint: str
    answer: Mapping[str, Any]


@attrs.frozen
class Write:
    """Something of one session that is to be durable, all of it or nothing.

    `records` are numbered without a gap from the last one stored. `row` is None when they change
    no row. `also` belongs to another session and is in the same commit: both, or neither. So is
    the end of `removes`, another one of which nothing is left.
    """

    session_id: SessionId
    epoch: int
    records: tuple[Record, ...]
    row: Session | None = None
    kept: Kept | None = None
    also: Write | None = None
    removes: SessionId | None = None


@attrs.frozen
class Stored:
    """A session as the store has it."""

    row: Session
    epoch: int
    last_seq: int
    number: int  # in the order of their making, from 1; never used again


class Resting(NamedTuple):
    """A session that rests, with nobody below it: all that a start has to know of it.

    `key` is None also when it is archived, and so bears it no longer.
    """

    id: SessionId
    is_stopped: bool
    key: str | None


class AtStart(NamedTuple):
    """What a start has to know: who rests, and all the others with all there is of them."""

    resting: list[Resting]
    others: list[Stored]


class Leftovers(NamedTuple):
    """What whoever wrote before has not finished."""

    unfinished: bool  # something is to be cleared away
    untidy: bool  # something deleted is still in an index


@attrs.frozen
class RawRecord:
    """A record as it lies in the file, whatever is wrong with it: for those who mend."""

    position: int
    session_id: Any
    seq: Any
    at: Any
    turn_id: Any
    kind: Any
    body: Any


@attrs.frozen
class RawRow:
    """A session's row as it lies in the file, whatever is wrong with it: for those who mend.

    `key` is None also when it is archived, and so bears it no longer.
    """

    session_id: SessionId
    epoch: int
    key: str | None
    root: SessionId
    row: bytes


@attrs.frozen
class Hit:
    """A record whose text has the words that somebody looks for; `snippet` is what is around them.

    The words are marked with `[` and `]`.
    """

    position: int
    session_id: SessionId
    seq: int
    at: float
    turn_id: TurnId | None
    kind: str
    snippet: str


@attrs.frozen
class Process:
    """A process that was started for a session: noted before it is used, gone when it is reaped."""

    session_id: SessionId
    pid: int
    start_time: int
    boot_id: str


def refuse_unless_own(write: Write) -> None:
    """Raise `ValueError` if a record is of another session, or of no time."""
    for record in write.records:
        if record.session_id != write.session_id:
            raise ValueError(f"record {record.seq} is of another session")
        if not math.isfinite(record.at):
            raise ValueError(f"record {record.seq} is of no time")


def is_due(before: int, last: int, every: int) -> bool:
    """Whether a row is kept as a snapshot: the records have passed a multiple of `every`."""
    return before // every != last // every


class Store(Protocol):
    """Rows, records and kept answers.

    Writing is for the one writer alone, which never has two calls open at once. Reading is for
    everyone, and sees only what was committed. Both raise `StoreDegraded` if the disk is full, gone
    or somebody else's: the same call may work later, and is safe to repeat. Until one has, a write
    that failed in its fsync may still come back if the machine dies: so its outcome is not known.
    """

    # Writing ------------------------------------------------------------------------------

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        """Make them durable together; for each, None or why it was refused, the others being kept.

        `Fenced`: the epoch is not the session's. `NotStorable`: the records do not follow the last
        one, or cannot be encoded.
        """

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        """Raise their epochs, so that every write with an older one is refused; give what is there.

        None for a session that is not there.
        """

    async def bring(self, session_id: SessionId, records: Sequence[Record]) -> None:
        """Keep the next records of a session that is not there, and too large for one commit.

        Nobody sees them until a `commit` brings the rest, and its row; until then readers of all
        records see nothing that was written after them. If that is not to be, `delete` it. Raises
        `NotStorable`.
        """

    async def delete(self, session_id: SessionId) -> None:
        """Nobody sees anything of it any more; nothing is left when `clear_away` says so."""

    async def clear_away(self) -> bool:
        """Leave nothing of what was deleted, as much as is done quickly; whether there is more."""

    async def tidy(self) -> bool:
        """Leave nothing in an index either, as much as is done quickly; whether there is more."""

    async def leftovers(self) -> Leftovers:
        """What another writer has left: whatever it had brought half is deleted."""

    async def probe(self) -> None:
        """Write something that changes nothing; raises `StoreDegraded` if that cannot be done."""

    async def look(self) -> None:
        """Raise `StoreDegraded` if it is no longer where it was opened; nothing is written."""

    async def note_process(self, process: Process) -> None:
        """Remember that it was started, so that it is found if we die before it does."""

    async def forget_process(self, process: Process) -> None:
        """It is dead, and was seen so."""

    # Reading ------------------------------------------------------------------------------

    async def read(self, session_id: SessionId) -> Stored | None:
        """The session as of its last commit; raises `NotStorable` if its row cannot be read."""

    async def records(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        limit: int | None = None,
        turn: TurnId | None = None,
    ) -> list[Record]:
        """Its records from number `after + 1` on; only those of one turn, if it is given."""

    async def records_of_input(self, session_id: SessionId, input_id: InputId) -> list[Record]:
        """Those that say what became of an input, from its acceptance to the end of its turn.

        None if it never was accepted. To find them takes no longer if much has happened before.
        """

    async def all_records(
        self, *, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Record]]:
        """The records of all sessions in the order of their commits, each with its position."""

    async def last_position(self) -> int:
        """That of the last record which `all_records` gives; 0 if there is none."""

    async def records_of(self, kinds: Collection[str]) -> list[Record]:
        """All records of these kinds, session by session and in order.

        For what start-up has to know, and not for kinds of which there are many.
        """

    async def raw_records(self, session_id: SessionId) -> list[RawRecord]:
        """Its records as they lie there, in the order of their commits."""

    async def snapshot(self, session_id: SessionId, *, at: int) -> tuple[int, Session] | None:
        """The last row that was kept at number `at` or before, and at which number.

        One that cannot be read is passed over.
        """

    def rows(
        self, *, after: int = 0, fitting: Filter | None = None, at_once: int | None = None
    ) -> AsyncGenerator[Stored, None]:
        """Every session made after number `after` that fits, in the order of their making.

        `at_once` is how many will be wanted, as far as the caller knows.
        """

    async def at_start(self) -> AtStart:
        """All sessions as of one moment, in the order of their making.

        Those of which a start needs next to nothing are not decoded: see `core.recovery.rests`.
        Whoever cannot be read is counted among them, since nothing can be done with it, and the
        log says so.
        """

    async def raw_row(self, session_id: SessionId) -> RawRow | None:
        """The session's row as it lies there."""

    async def damaged(self, *, besides: Collection[SessionId] = ()) -> list[SessionId]:
        """The sessions whose rows cannot be read, in the order of their making.

        `besides` those that somebody has just read: then no row is looked at for nothing.
        """

    async def search(
        self,
        words: str,
        *,
        session_id: SessionId | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        """What was said that has all these words, the last said first.

        Only at positions below `before`, which is where a page before it ended.
        """

    async def kept(self, scope: str, key: str) -> Kept | None:
        """The answer that was kept under that key."""

    async def sizes(self) -> Mapping[SessionId, int]:
        """How many bytes the records of each session have."""

    async def backup(self, target: Path) -> int:
        """Copy all of it into a new file, as of one moment; gives its size.

        Raises `ConfigError` if that cannot be done, or the file is there already.
        """

    async def processes(self) -> list[Process]:
        """All that were noted and not forgotten."""
