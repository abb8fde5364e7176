"""What a person reads of a session, in the order in which it is read.

All texts in here come from users and agents, and may be anything: whoever writes them down makes
them harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

Tone: TypeAlias = Literal["plain", "good", "bad"]


@attrs.frozen
class ChapterBegan:
    """The session was cleared: what comes now does not know what came before."""

    number: int
    at: float


@attrs.frozen
class TurnBegan:
    """A turn; everything up to its end is inside."""

    number: int
    turn_id: str
    source: str
    at: float


@attrs.frozen
class TurnOver:
    """The end of a turn; with no outcome it was still open when the records ended."""

    turn_id: str
    outcome: str | None
    at: float
    stop_reason: str | None = None
    error: str | None = None
    seconds: float | None = None
    usage: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.define
class Text:
    """Something that was said or thought, whole again if it was stored in parts."""

    who: Literal["user", "agent", "thought"]
    at: float
    pieces: list[str]
    steered: bool = False

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)


@attrs.define
class Call:
    """A tool call, with how it went; no outcome: nobody knows yet."""

    call_id: str
    name: str
    input: Any
    at: float
    updates: list[Any] = attrs.field(factory=list)
    outcome: str | None = None
    result: Any = None
    ended_at: float | None = None


@attrs.define
class Question:
    """A permission that the agent asked for, and the answer."""

    request_id: str
    tool: str
    question: str
    input: Any
    at: float
    decision: str | None = None
    by: str | None = None


@attrs.frozen
class Plan:
    """What the agent is going to do."""

    entries: Sequence[Any]
    at: float


@attrs.frozen
class Note:
    """Anything else: our own words, and what somebody else had to say about it."""

    what: str
    at: float
    detail: str | None = None
    tone: Tone = "plain"


Item: TypeAlias = ChapterBegan | TurnBegan | TurnOver | Text | Call | Question | Plan | Note
