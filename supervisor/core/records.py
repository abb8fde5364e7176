"""Records: facts with a number, which is what is stored, published and replayed."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .facts import Body, Fact, Kind
from .folds import begin, fold
from .ids import SessionId, TurnId
from .session import Session


@attrs.frozen
class Record:
    """One durable event of a session; `seq` counts from 1 without gaps."""

    session_id: SessionId
    seq: int
    at: float
    turn_id: TurnId | None
    kind: Kind
    body: Body

    @property
    def fact(self) -> Fact:
        """What it says, without its number."""
        return Fact(self.kind, self.at, self.body, self.turn_id)


def replay(records: Iterable[Record]) -> Session | None:
    """The session that these records, from the first on, have made; None if there are none."""
    session: Session | None = None
    for record in records:
        if session is None:
            session = begin(record.session_id, record.fact)
        else:
            session = fold(session, record.fact)
    return session


def numbered(session_id: SessionId, facts: Iterable[Fact], *, after: int) -> tuple[Record, ...]:
    """The facts as records, numbered from `after + 1`."""
    return tuple(
        Record(session_id, seq, fact.at, fact.turn, fact.kind, fact.body)
        for seq, fact in enumerate(facts, after + 1)
    )
