"""The messages of the persistence actor; `writer` handles them."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors import Ask, Tracked
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import SessionId

from .pending import PendingWrite
from .port import ProcessEntry, Stored, Write

# None if it is written; the refusal; or a pending write if the store is degraded.
WriteResult: TypeAlias = SupervisorError | PendingWrite | None


class QueuedWrite(Tracked):
    """A write that is told to the writer; the writer calls `written` instead of an answer.

    It is for the commits of sessions, two in each turn: it takes a third of the instructions of an
    ask, and no task is woken. `written` and `lost` are called in the task of the writer and must
    not raise.
    """

    __slots__ = ()

    write: Write

    def written(self, result: WriteResult) -> None:
        """Learn the result of the write."""
        raise NotImplementedError(f"{type(self).__name__} has no written()")


@attrs.frozen
class Commit(Ask[WriteResult]):
    """Make a write durable."""

    write: Write


@attrs.frozen
class CommitAll(Ask[list[WriteResult]]):
    """Make writes of many sessions durable; the answer has a result for each."""

    writes: tuple[Write, ...]


@attrs.frozen
class InsertChunked(Ask[WriteResult]):
    """Make a large new session durable in chunks, with other writes in between.

    Readers see nothing of it before it is complete.
    """

    write: Write


@attrs.frozen
class Claim(Ask[Stored | None]):
    """Raise the epoch of a session and return its stored row.

    With `in_memory`, a degraded store writes the claim when it recovers.
    """

    session_id: SessionId
    in_memory: bool = False


@attrs.frozen
class ClaimAll(Ask[list[Stored | None]]):
    """Raise the epochs of these sessions and return their stored rows."""

    session_ids: tuple[SessionId, ...]


@attrs.frozen
class Delete(Ask[None]):
    """Delete a session; answered when all its data is removed. Other writes go on meanwhile."""

    session_id: SessionId


@attrs.frozen
class AwaitPurge(Ask[None]):
    """Answered when all data of sessions deleted earlier, by any write, is removed."""


class OptimizeIndex:
    """Remove the text of deleted sessions from the full-text index."""


@attrs.frozen
class NoteProcess(Ask[None]):
    """Store the identity of a started process, before it is used."""

    process: ProcessEntry


@attrs.frozen
class ForgetProcess(Ask[None]):
    """Remove the entry of a process that has been reaped."""

    process: ProcessEntry


@attrs.frozen
class Retry(Ask[bool]):
    """Write what is pending, and check whether the store can write again."""


@attrs.frozen
class Flush(Ask[None]):
    """Answered when all earlier requests are written and the store's thread has answered."""
