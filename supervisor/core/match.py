"""What a short form of an id can stand for; alone, because errors carry it."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs

IdKind: TypeAlias = Literal["session", "request", "input", "turn", "call"]

# The part of an id that a text is.
Place: TypeAlias = Literal["whole", "beginning", "end"]

# The beginning of the ids of each kind. Agents in processes choose the ids of their calls.
PREFIXES: Final[dict[IdKind, str]] = {
    "session": "s_",
    "request": "req_",
    "input": "in_",
    "turn": "turn_",
    "call": "call_",
}


def is_part(text: str, whole: str, place: Place) -> bool:
    """Return True if the text is this part of the id."""
    if place == "whole":
        return text == whole
    return whole.startswith(text) if place == "beginning" else whole.endswith(text)


@attrs.frozen
class Match:
    """An id that a text stands for: its kind, its session, and the name of that session."""

    kind: IdKind
    id: str
    session_id: str
    name: str | None
