"""Checks of a write, the same in every store: its epoch, its record numbers, its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from supervisor.core.errors import Fenced, NotStorable
from supervisor.core.ids import SessionId
from supervisor.core.records import Record

from .port import Write

# What an encoder raises for a value that it cannot encode.
ENCODING_ERRORS: Final = (TypeError, ValueError, OverflowError, RecursionError)


def validate_records(write: Write) -> None:
    """Raise `ValueError` if a record has another session id or a non-finite time."""
    session_id = write.session_id
    for record in write.records:
        if record.session_id != session_id:
            raise ValueError(f"record {record.seq} belongs to another session")
        if not math.isfinite(record.at):
            raise ValueError(f"record {record.seq} has a non-finite time")


def write_refusal(
    write: Write, *, epoch: int, last_seq: int, is_stored: bool
) -> Fenced | NotStorable | None:
    """Return the error for a write that does not continue the stored session, or None."""
    if write.epoch != epoch:
        return Fenced(
            f"session {write.session_id} is at epoch {epoch}, not at {write.epoch}",
            hint="another incarnation has claimed it; look the session up again",
        )
    if not _continue(write.records, last_seq):
        numbers = ", ".join(str(record.seq) for record in write.records)
        return NotStorable(
            f"session {write.session_id} has {last_seq} records, these are {numbers}",
            hint="an earlier write is missing; look the session up again",
        )
    if not is_stored and write.row is None:
        return NotStorable(
            f"there is no session {write.session_id}",
            hint="the first write of a session has a row",
        )
    return None


def refuse_chunk(
    session_id: SessionId, records: Sequence[Record], *, last_seq: int, is_stored: bool
) -> None:
    """Raise `NotStorable` for a chunk that does not continue a session under construction."""
    if is_stored or not _continue(records, last_seq):
        raise NotStorable(
            f"session {session_id} exists already, or has {last_seq} records",
            hint="insert a session that does not exist, from its first record on",
        )


def _continue(records: Sequence[Record], last_seq: int) -> bool:
    """Return True if the numbers of the records follow the last one without gaps."""
    return [record.seq for record in records] == list(
        range(last_seq + 1, last_seq + 1 + len(records))
    )


def refused_with_earlier(session_id: SessionId) -> NotStorable:
    """Return the error for a write after one of the same session that was refused."""
    return NotStorable(
        f"an earlier write of session {session_id} was refused", hint="look the session up again"
    )


def not_storable(session_id: SessionId, error: Exception) -> NotStorable:
    """Return the error for a value that a store cannot keep."""
    return NotStorable(
        f"session {session_id} has a value that cannot be stored: {error}",
        hint="this is a bug in understudy, please report it",
    )
