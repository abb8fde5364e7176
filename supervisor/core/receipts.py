"""What whoever asked is told: that an input is durable, and what became of an interrupt.

They stand apart from the step that makes them, for a client reads them and decides nothing.
"""

from __future__ import annotations

from typing import Literal

import attrs

from .ids import InputId, SessionId, TurnId
from .session import LadderStep


@attrs.frozen
class Receipt:
    """What the sender of an input is told: that it is durable, and what will become of it."""

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
    """What became of an interrupt: numbers of targets, and how far the ladder went."""

    scope: str
    matched: int = 0
    stopped: int = 0
    already_over: int = 0
    stale: int = 0
    unreachable: int = 0
    ladder_step: LadderStep | None = None
    seconds: float = 0.0
