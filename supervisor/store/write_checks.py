"""Checks of a write, the same in every store: its epoch, its record numbers, its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Final

from supervisor.core.errors import Fenced, NameTaken, NotStorable
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId
from supervisor.core.names import held_name, name_scope

from .codec import SIMPLE_TYPES, check_plain
from .port import Write

# What an encoder raises for a value that it cannot encode.
ENCODING_ERRORS: Final = (TypeError, ValueError, OverflowError, RecursionError)


def validate_records(write: Write) -> None:
    """Raise if a record has a value that an encoder would change instead of refusing it.

    That is: another session id, a number that does not follow the one before, a non-finite time,
    or a body that is not plain data. In one loop: there are six records in a short turn.
    """
    session_id, seq = write.session_id, None
    for record in write.records:
        if record.session_id != session_id:
            raise ValueError(f"record {record.seq} belongs to another session")
        if seq is not None and record.seq != seq + 1:
            raise ValueError(f"record {record.seq} follows record {seq}")
        seq = record.seq
        if not isfinite(record.at):
            raise ValueError(f"record {seq} has a non-finite time")
        body = record.body
        if type(body) is not dict:
            raise TypeError(f"the body of record {seq} is not a dict")
        for value in body.values():
            if type(value) not in SIMPLE_TYPES:
                check_plain(value)


def write_refusal(
    write: Write, epoch: int, last_seq: int, *, is_stored: bool = True
) -> Fenced | NotStorable | None:
    """Return the error for a write that does not continue the stored session, or None."""
    if write.epoch != epoch:
        return Fenced(
            f"session {write.session_id} is at epoch {epoch}, not at {write.epoch}",
            hint="another incarnation has claimed it; look the session up again",
        )
    # That the others follow the first one is checked with their values.
    if write.records and write.records[0].seq != last_seq + 1:
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


def name_refusal(
    write: Write,
    held: Callable[[SessionId], str | None],
    holder: Callable[[str, str], SessionId | None],
) -> NameTaken | None:
    """Return the error for a write that gives a session a name which another one holds, or None.

    `held` returns the stored name of a session, `holder` the session that has a name in a scope. A
    name that a session has already is not looked up: older stores have doubled names.
    """
    given: dict[tuple[str, str], SessionId] = {}
    parts = tuple(write.parts)
    for number, part in enumerate(parts):
        row = part.row
        name = None if row is None else held_name(row)
        if row is None or name is None or name == held(part.session_id):
            continue
        place = (name_scope(row), name)
        other: SessionId | None = given.setdefault(place, part.session_id)
        if other == part.session_id:
            other = holder(*place)
            if other is not None and _gives_up_name(parts[:number], other, name):
                other = None
        if other is not None:
            return NameTaken(
                f"the name {name!r} is held by session {other}", hint="choose another name"
            )
    return None


def _gives_up_name(parts: Sequence[Write], session_id: SessionId, name: str) -> bool:
    """Return True if one of the parts takes the name from the session: they apply in order."""
    return any(
        part.session_id == session_id and part.row is not None and held_name(part.row) != name
        for part in parts
    )


def refuse_chunk(
    session_id: SessionId, records: Sequence[AnyRecord], *, last_seq: int, is_stored: bool
) -> None:
    """Raise `NotStorable` for a chunk that does not continue a session under construction."""
    if is_stored or (records and records[0].seq != last_seq + 1):
        raise NotStorable(
            f"session {session_id} exists already, or has {last_seq} records",
            hint="insert a session that does not exist, from its first record on",
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
