"""Facts: what the records say. What each of them makes of a session is in `folds`.

Rule 1: whatever a rule decides it says as facts.
Rule 2: a body is plain data that JSON can carry; folding it needs nothing else.
Rule 3: what an agent puts out in mid-turn (text, thoughts, updates) changes no row: it is written
        while decisions wait for their commit, and must not get between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from .ids import TurnId

DecidedKind: TypeAlias = Literal[
    "session_created",
    "session_changed",
    "session_started",
    "session_suspended",
    "session_resumed",
    "session_cleared",
    "session_archived",
    "session_stopped",
    "agent_attached",
    "input_accepted",
    "input_changed",
    "input_settled",
    "generation_raised",
    "turn_started",
    "user_text",
    "agent_text",
    "tool_call",
    "tool_ended",
    "permission_asked",
    "permission_answered",
    "rule_changed",
    "usage",
    "steered",
    "interrupted",
    "child_started",
    "child_ended",
    "spawn_refused",
    "quiet",
    "stalled",
    "progress_resumed",
    "agent_restarting",
    "turn_ended",
]
StreamedKind: TypeAlias = Literal["agent_text", "thought", "tool_update", "plan", "warning"]
Kind: TypeAlias = Literal[DecidedKind, StreamedKind]

DECIDED: Final[tuple[DecidedKind, ...]] = get_args(DecidedKind)
STREAMED: Final[tuple[StreamedKind, ...]] = get_args(StreamedKind)
KINDS: Final[tuple[Kind, ...]] = tuple(dict.fromkeys((*DECIDED, *STREAMED)))
Body: TypeAlias = Mapping[str, Any]
Changes: TypeAlias = dict[str, Any]

TITLE_LETTERS: Final = 60
# So much of what a child said last is told to its parent; the rest is in the child's own records.
NEWS_LETTERS: Final = 2000


def kind_of_text(role: Literal["user", "agent"]) -> Literal["user_text", "agent_text"]:
    """The kind of record that says what somebody said."""
    return "user_text" if role == "user" else "agent_text"


@attrs.frozen
class Fact:
    """One thing that is now so; a record, before the log gives it its number."""

    kind: Kind
    at: float
    body: Body
    turn: TurnId | None = None
