"""Targets of an interrupt: a turn, a tool call, a session or a tree.

A new scope also needs: a field of `InterruptRequested` in `core/events.py` and a rule in
`core/rules/interrupts.py`; `handles/interrupts.py` and `check_scope` in `handles/arguments.py`;
`api/routes/control.py` and `client/arguments.py`; the options of `cli/commands/interrupt.py`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs


@attrs.frozen
class TurnScope:
    """One turn, named by its id."""

    id: str


@attrs.frozen
class ToolCall:
    """One tool call, named by its id."""

    id: str


Scope: TypeAlias = Literal["turn", "session", "tree"] | TurnScope | ToolCall
