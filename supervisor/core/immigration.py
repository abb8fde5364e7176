"""How a session that comes from elsewhere becomes one of ours: its past stays, its rights do not.

Rule 1: what is in the file is kept as it is, every kind and every body.
Rule 2: what it left open is closed by the rules that close it after a restart, and it is stopped.
Rule 3: what a session may do is granted here. Its terms, limits and permissions are this
        supervisor's; its key and its workspace are gone, and its place in a tree that is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from .creation import Plan, granted
from .events import AgentClosed, Event, Said, StopRequested, SupervisorRestarted
from .facts import Fact
from .folds import begin, fold
from .ids import SessionId, TurnId
from .records import numbered
from .said import said_in
from .session import Phase, Session
from .table import decide
from .tree.situation import Situation

_NOWHERE: Final = Situation(no_place=True)


def settle_in(
    session_id: SessionId,
    created: Fact,
    facts: Sequence[Fact],
    plan: Plan,
    *,
    format: str,  # noqa: A002 - the word that every surface uses for it
    at: float,
) -> tuple[Session, tuple[Fact, ...]]:
    """The session and all of its facts; `plan` says what it may do here."""
    session = reduce(fold, facts, begin(session_id, created))
    closing: list[Fact] = []
    at = max(at, session.updated_at)
    fresh = TurnId("imported")
    said = Said()
    if session.turn is not None:
        said = said_in(numbered(session_id, facts, after=1), session.turn.id)
    events: tuple[Event, ...] = (
        # In this order nobody thinks of starting its agent again.
        StopRequested(cause="user", detail="imported", at=at, fresh=fresh, situation=_NOWHERE),
        SupervisorRestarted(epoch=session.epoch, said=said, at=at, fresh=fresh, situation=_NOWHERE),
        AgentClosed(at=at, fresh=fresh, situation=_NOWHERE),
    )
    for event in events:
        if session.phase is not Phase.STOPPED:
            step = decide(session, event)
            session = step.session
            closing += step.facts
    # What waited in one that had stopped already was held for somebody who is not here.
    for waiting in session.inputs:
        outcome = {"input_id": waiting.id, "outcome": "cancelled", "detail": "imported"}
        closing.append(Fact("input_settled", at, outcome))
        session = fold(session, closing[-1])
    body = {"imported": {"format": format, **granted(plan)}}
    imported = Fact("session_changed", at, body)
    return fold(session, imported), (created, *facts, *closing, imported)
