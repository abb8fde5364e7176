"""Items of a transcript, in reading order.

All texts here come from users and agents and may contain anything: each renderer escapes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

Tone: TypeAlias = Literal["plain", "good", "bad"]


@attrs.frozen
class ChapterItem:
    """The start of a chapter: the session was cleared, the agent has no earlier context."""

    number: int
    at: float


@attrs.frozen
class TurnStartItem:
    """The start of a turn; all items up to its end belong to it."""

    number: int
    turn_id: str
    source: str
    at: float


@attrs.frozen
class TurnEndItem:
    """The end of a turn; without an outcome, the turn was still open when the records ended."""

    turn_id: str
    outcome: str | None
    at: float
    stop_reason: str | None = None
    error: str | None = None
    seconds: float | None = None
    usage: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.define
class TextItem:
    """A text or a thought, joined if it was stored in parts."""

    role: Literal["user", "agent", "thought"]
    at: float
    pieces: list[str]
    steered: bool = False

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)


@attrs.define
class CallItem:
    """A tool call and its result; the outcome is None while it has not ended."""

    call_id: str
    name: str
    input: Any
    at: float
    updates: list[Any] = attrs.field(factory=list)
    outcome: str | None = None
    result: Any = None
    ended_at: float | None = None


@attrs.define
class PermissionItem:
    """A permission request of the agent, and the decision."""

    request_id: str
    tool: str
    question: str
    input: Any
    at: float
    decision: str | None = None
    by: str | None = None


@attrs.frozen
class PlanItem:
    """The agent's plan."""

    entries: Sequence[Any]
    at: float


@attrs.frozen
class NoteItem:
    """Any other record as a sentence of ours; `detail` is text of the agent or the user."""

    text: str
    at: float
    detail: str | None = None
    tone: Tone = "plain"


TranscriptItem: TypeAlias = (
    ChapterItem
    | TurnStartItem
    | TurnEndItem
    | TextItem
    | CallItem
    | PermissionItem
    | PlanItem
    | NoteItem
)
