"""Blocks of a transcript, in reading order.

Rule 1: a block never changes. What changes on the screen is another block at the same place, so
        that a view recognizes by identity what it has laid out already.
Rule 2: every text in a block is printable (`core.text`) and bounded.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs

Speaker: TypeAlias = Literal["user", "agent", "thought"]
Mood: TypeAlias = Literal["plain", "good", "notice", "bad"]

# A longer text is several blocks, so that an appended piece never lays out more than this again.
MAX_BLOCK_CHARACTERS: Final = 8_192
# The rest of a longer line is counted and not shown.
MAX_LINE_CHARACTERS: Final = 4_096


@attrs.frozen(eq=False)
class TurnStartBlock:
    """The start of a turn; `source` says who sent its input, unless that was a person."""

    turn_id: str | None
    seq: int
    at: float
    source: str | None


@attrs.frozen(eq=False)
class TextBlock:
    """A text, or a part of it: `is_first` and `is_last` say which.

    `how` says how a text of the user came, such as `steered` or `queued 12 s`.
    """

    turn_id: str | None
    at: float
    speaker: Speaker
    text: str
    how: str | None = None
    is_first: bool = True
    is_last: bool = True


@attrs.frozen(eq=False)
class CallBlock:
    """A tool call; the outcome is None while it runs."""

    turn_id: str | None
    at: float
    call_id: str
    name: str
    about: str
    outcome: str | None = None
    seconds: float | None = None
    result: str = ""


@attrs.frozen(eq=False)
class PlanBlock:
    """The agent's plan: pairs of a status and a text."""

    turn_id: str | None
    at: float
    entries: tuple[tuple[str, str], ...]


@attrs.frozen(eq=False)
class ChildBlock:
    """A child, from its start to its end; the outcome of a running child is None."""

    turn_id: str | None
    at: float
    child: str
    label: str
    is_resumed: bool
    text: str
    outcome: str | None = None
    result: str = ""


@attrs.frozen(eq=False)
class RequestBlock:
    """A permission request or a question; the decision is None while it waits."""

    turn_id: str | None
    at: float
    request_id: str
    tool: str
    question: str
    input: str
    options: tuple[str, ...]
    decision: str | None = None
    by: str | None = None
    # Of a question: answers to choose from; None of a permission request.
    choices: tuple[str, ...] | None = None


@attrs.frozen(eq=False)
class NoteBlock:
    """Anything else as one line."""

    turn_id: str | None
    at: float
    text: str
    mood: Mood = "plain"


@attrs.frozen(eq=False)
class TurnEndBlock:
    """The end of a turn with its outcome and what it used."""

    turn_id: str | None
    at: float
    outcome: str
    error: str = ""
    stop_reason: str | None = None
    ladder_step: str | None = None
    seconds: float | None = None
    tokens: int = 0
    cost: float = 0.0


Block: TypeAlias = (
    TurnStartBlock
    | TextBlock
    | CallBlock
    | PlanBlock
    | ChildBlock
    | RequestBlock
    | NoteBlock
    | TurnEndBlock
)
