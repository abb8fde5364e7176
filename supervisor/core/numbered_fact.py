"""Facts that the log of a session has numbered: records inside the supervisor.

`Record` is the same for readers outside. It stays an attrs class, because short commands decode
it and must not import msgspec. A turn writes six records and mostly nothing outside reads them as
they are written; as attrs objects they took 22,000 instructions a turn more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from .frozen_struct import FrozenStruct
from .ids import SessionId, TurnId
from .records import Body, Fact, Record, RecordKind


class NumberedFact(FrozenStruct):
    """A record on its way to the store and to readers inside; it has the fields of `Record`."""

    session_id: SessionId
    seq: int
    at: float
    turn_id: TurnId | None
    kind: RecordKind
    body: Body


AnyRecord: TypeAlias = Record | NumberedFact


def as_record(record: AnyRecord) -> Record:
    """Return the record for readers outside."""
    if isinstance(record, Record):
        return record
    return Record(
        record.session_id, record.seq, record.at, record.turn_id, record.kind, record.body
    )


def number_in_log(
    session_id: SessionId, facts: Iterable[Fact], *, after: int
) -> tuple[NumberedFact, ...]:
    """Return the facts numbered from `after + 1`."""
    return tuple(
        [
            NumberedFact(session_id, seq, at, turn, kind, body)
            for seq, (kind, at, body, turn) in enumerate(facts, after + 1)
        ]
    )
