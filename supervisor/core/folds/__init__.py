"""Folds: what each kind of fact makes of a session, one function for each kind.

Rule 1: a session changes only here. Folding what was decided is the new state; so folding the
        stored records gives the row, by construction.
Rule 2: folding never refuses. What was written down has happened.
Rule 3: a function gives the fields that change and their new values; None where nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from supervisor.core.facts import Body, Changes, Fact, Kind
from supervisor.core.session import Session

from . import agent, family, inputs, life, turn
from .life import begin

__all__ = ("begin", "fold")


def fold(session: Session, fact: Fact) -> Session:
    """The session after the fact."""
    changes = _FOLDS[fact.kind](session, fact.body, fact)
    if changes is None:
        return session
    changes["updated_at"] = fact.at
    return session.with_changes(changes)


def _nothing(_: Session, __: Body, ___: Fact) -> None:
    return None


_FOLDS: Final[Mapping[Kind, Callable[[Session, Body, Fact], Changes | None]]] = {
    "session_created": _nothing,  # `begin` has read it
    "session_changed": life.session_changed,
    "session_started": life.session_started,
    "session_suspended": life.session_suspended,
    "session_resumed": life.session_resumed,
    "session_cleared": life.session_cleared,
    "session_archived": life.session_archived,
    "session_stopped": life.session_stopped,
    "agent_attached": agent.agent_attached,
    "input_accepted": inputs.input_accepted,
    "input_changed": inputs.input_changed,
    "input_settled": inputs.input_settled,
    "generation_raised": inputs.generation_raised,
    "turn_started": turn.turn_started,
    "user_text": turn.user_text,
    "agent_text": turn.agent_text,
    "thought": _nothing,
    "tool_call": turn.tool_call,
    "tool_update": _nothing,
    "tool_ended": turn.tool_ended,
    "plan": _nothing,
    "permission_asked": turn.permission_asked,
    "permission_answered": turn.permission_answered,
    "rule_changed": turn.rule_changed,
    "usage": turn.usage,
    "steered": _nothing,
    "interrupted": turn.interrupted,
    "child_started": family.child_started,
    "child_ended": family.child_ended,
    "spawn_refused": _nothing,
    "quiet": turn.quiet,
    "stalled": turn.stalled,
    "progress_resumed": turn.progress_resumed,
    "agent_restarting": agent.agent_restarting,
    "warning": _nothing,
    "turn_ended": turn.turn_ended,
}
