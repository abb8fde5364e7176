"""Targets of an interrupt: a turn, a tool call, a session or a tree."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs


@attrs.frozen
class TurnScope:
    """One turn, by its id."""

    id: str


@attrs.frozen
class ToolCall:
    """One tool call, by its id."""

    id: str


Scope: TypeAlias = Literal["turn", "session", "tree"] | TurnScope | ToolCall
