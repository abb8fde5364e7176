"""Replies to requests: the receipt of an input, the report of an interrupt, a turn's result.

They are separate from `step.py`, because the client package imports them and not the rules.
"""

from __future__ import annotations

from typing import Literal

import attrs

from .ids import InputId, SessionId, TurnId
from .session_values import LadderStep, Outcome, Usage


# Without slots: a frozen object with slots takes 1.4 times as long to create.
@attrs.frozen(slots=False)
class Receipt:
    """The reply to an accepted input, which is durable: its id, status and position."""

    input_id: InputId
    session_id: SessionId
    status: Literal["started", "queued", "staged", "interrupting"]
    position: int | None
    turn_id: TurnId | None
    previous_turn_id: TurnId | None
    generation: int
    cancelled: tuple[InputId, ...] = ()


@attrs.frozen
class InterruptReport:
    """The result of an interrupt: the numbers of targets by outcome, and the last ladder step.

    `unknown` counts a named turn or call that the session never had. `input_id` is the input made
    of `replace_with`; None if there was no such text, or it was not accepted.
    """

    scope: str
    matched: int = 0
    stopped: int = 0
    already_over: int = 0
    stale: int = 0
    unreachable: int = 0
    ladder_step: LadderStep | None = None
    seconds: float = 0.0
    unknown: int = 0
    input_id: InputId | None = None


@attrs.frozen(slots=False)  # created in every turn, as `Receipt`
class TurnResult:
    """The result of a turn; `text` is the returned text, else all text of the turn.

    `text` is at most 1 MiB, cut at its end if `truncated`; the records have the whole text.
    """

    turn_id: TurnId
    text: str
    outcome: Outcome
    stop_reason: str | None
    usage: Usage
    error: str | None
    truncated: bool = False
