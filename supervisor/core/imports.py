"""Import: turn the history of another system into a valid stopped session.

Rule 1: every record that was read from the file is kept as it is, kind and body.
Rule 2: open turns and calls are closed by the rules for a restart, and the session is stopped.
Rule 3: the file grants no rights. Terms, limits and permissions are those of this supervisor; the
        key, the workspace and the position in a tree are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from .agent_events import AgentClosed, SupervisorRestarted
from .creation import SessionSpec, grants_body
from .events import Event, StopRequested
from .facts import Fact, number_facts
from .fold import fold, initial_state
from .ids import SessionId, TurnId
from .state import Phase, SessionState
from .table import decide
from .text import TurnOutput, turn_output
from .tree.admission import TreeView

_NO_CHILD_SLOT: Final = TreeView(child_slots_full=True)


def adopt_import(
    session_id: SessionId,
    created: Fact,
    facts: Sequence[Fact],
    plan: SessionSpec,
    *,
    format: str,  # noqa: A002 - the name of the argument in the API and the CLI
    at: float,
) -> tuple[SessionState, tuple[Fact, ...]]:
    """Return the session and all its facts; `plan` has its terms, limits and permissions."""
    session = reduce(fold, facts, initial_state(session_id, created))
    closing: list[Fact] = []
    at = max(at, session.updated_at)
    fresh = TurnId("imported")
    output = TurnOutput()
    if session.turn is not None:
        output = turn_output(number_facts(session_id, facts, after=1), session.turn.id)
    events: tuple[Event, ...] = (
        # Stop first, so that the restart does not start the agent again.
        StopRequested(
            cause="user", detail="imported", at=at, fresh=fresh, tree_view=_NO_CHILD_SLOT
        ),
        SupervisorRestarted(
            epoch=session.epoch, output=output, at=at, fresh=fresh, tree_view=_NO_CHILD_SLOT
        ),
        AgentClosed(at=at, fresh=fresh, tree_view=_NO_CHILD_SLOT),
    )
    for event in events:
        if session.phase is not Phase.STOPPED:
            step = decide(session, event, 1 + len(facts) + len(closing))
            session = step.state
            closing += step.facts
    # Inputs of a session that had stopped already were held for a user of the other system.
    for waiting in session.inputs:
        outcome = {"input_id": waiting.id, "outcome": "cancelled", "detail": "imported"}
        closing.append(Fact("input_settled", at, outcome))
        session = fold(session, closing[-1])
    body = {"imported": {"format": format, **grants_body(plan)}}
    imported = Fact("session_changed", at, body)
    return fold(session, imported), (created, *facts, *closing, imported)
