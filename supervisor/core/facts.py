"""Facts: the state changes of a step, and with their numbers the records inside the supervisor.

`Record` is the same as a numbered fact, for readers outside. It stays an attrs class, because short
commands decode it and must not import msgspec. A turn writes six records, and mostly nothing
outside reads them as they are written; as attrs objects they took 22,000 instructions more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from .frozen_struct import FrozenStruct
from .ids import SessionId, TurnId
from .records import Body, Record, RecordKind


class Fact(FrozenStruct):
    """One state change of a step; a fact with a number is a record.

    `seq` is the number that its record will have; 0 if no state depends on it.
    """

    kind: RecordKind
    at: float
    body: Body
    turn: TurnId | None = None
    seq: int = 0


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


def fact_of(record: AnyRecord) -> Fact:
    """Return the record as the fact that was numbered."""
    return Fact(record.kind, record.at, record.body, record.turn_id, record.seq)


def number_in_log(
    session_id: SessionId, facts: Iterable[Fact], *, after: int
) -> tuple[NumberedFact, ...]:
    """Return the facts numbered from `after + 1`."""
    numbered: list[NumberedFact] = []
    # Not a comprehension, which takes 900 instructions to begin: most steps have three facts.
    for seq, fact in enumerate(facts, after + 1):
        numbered.append(NumberedFact(session_id, seq, fact.at, fact.turn, fact.kind, fact.body))
    return tuple(numbered)


def number_facts(session_id: SessionId, facts: Iterable[Fact], *, after: int) -> tuple[Record, ...]:
    """Return the facts as records, numbered from `after + 1`."""
    return tuple([as_record(fact) for fact in number_in_log(session_id, facts, after=after)])
