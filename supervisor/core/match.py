"""What a short form of an id can stand for; alone, because errors carry it."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs

IdKind: TypeAlias = Literal["session", "request", "input", "turn", "call"]

# The beginning of the ids of each kind. Agents in processes choose the ids of their calls.
PREFIXES: Final[dict[IdKind, str]] = {
    "session": "s_",
    "request": "req_",
    "input": "in_",
    "turn": "turn_",
    "call": "call_",
}


@attrs.frozen
class Match:
    """An id that a text stands for: its kind, its session, and the name of that session."""

    kind: IdKind
    id: str
    session_id: str
    name: str | None
