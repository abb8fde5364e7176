"""Shapes that callers give and get: what an interrupt names, what waits, what was."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from supervisor.core.ids import InputId, TurnId
from supervisor.core.records import Record


@attrs.frozen
class TurnScope:
    """One turn, by its id."""

    id: str


@attrs.frozen
class ToolCall:
    """One tool call, by its id."""

    id: str


Scope: TypeAlias = Literal["turn", "session", "tree"] | TurnScope | ToolCall


@attrs.frozen
class Input:
    """An input that is accepted and not settled."""

    id: InputId
    text: str
    status: Literal["queued", "staged"]
    position: int
    accepted_at: float
    expires_at: float | None


@attrs.frozen
class TurnRecords:
    """The records of one turn, or those between two turns (`turn_id` is None)."""

    turn_id: TurnId | None
    records: tuple[Record, ...]
