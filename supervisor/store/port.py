"""What a store can do, whatever it is made of. One contract test suite holds for all of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

import attrs

from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.session import Session


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


class Store(Protocol):
    """Rows, records and kept answers.

    Writing is for the one writer alone, which never has two calls open at once. Reading is for
    everyone, and sees only what was committed.
    """

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        """Make them durable together; for each, None or why it was refused, the others being kept.

        `Fenced`: the epoch is not the session's. `NotStorable`: the records do not follow the last
        one, or cannot be encoded.
        """

    async def claim(self, session_id: SessionId) -> Stored | None:
        """Raise the epoch, so that every write with an older one is refused; give what is there."""

    async def delete(self, session_id: SessionId) -> None:
        """Leave nothing of it."""

    async def read(self, session_id: SessionId) -> Stored | None:
        """The session as of its last commit."""

    async def records(
        self, session_id: SessionId, *, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        """Its records from number `after + 1` on."""

    async def all_records(
        self, *, after: int = 0, limit: int | None = None
    ) -> list[tuple[int, Record]]:
        """The records of all sessions in the order of their commits, each with its position."""

    def rows(self, *, after: int = 0) -> AsyncGenerator[Stored, None]:
        """Every session made after number `after`, in the order of their making."""

    async def kept(self, scope: str, key: str) -> Kept | None:
        """The answer that was kept under that key."""
