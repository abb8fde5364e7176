"""What was begun and has no end: turns, tool calls, and requests for permission.

A call and a request belong to the turn in which they were begun: agents use the ids of their calls
again in other turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.facts import Kind
from supervisor.core.ids import TurnId
from supervisor.core.records import Record

Thing: TypeAlias = Literal["turn", "call", "request"]

_BEGINNINGS: Final[Mapping[Kind, tuple[Thing, str]]] = {
    "turn_started": ("turn", "turn_id"),
    "tool_call": ("call", "call_id"),
    "permission_asked": ("request", "request_id"),
}
_ENDS: Final[Mapping[Kind, tuple[Thing, str]]] = {
    "turn_ended": ("turn", "turn_id"),
    "tool_ended": ("call", "call_id"),
    "permission_answered": ("request", "request_id"),
}


@attrs.frozen
class LooseEnd:
    """Something that was begun, by the record that says so, and never ended."""

    thing: Thing
    id: str
    turn: TurnId | None
    beginning: Record


def loose_ends(records: Iterable[Record]) -> tuple[LooseEnd, ...]:
    """All that these records begin and do not end, in the order in which it was begun."""
    begun: dict[tuple[Thing, TurnId | None, str], LooseEnd] = {}
    for record in records:
        if record.kind in _BEGINNINGS:
            thing, turn, name = _what(record, *_BEGINNINGS[record.kind])
            begun.setdefault((thing, turn, name), LooseEnd(thing, name, turn, record))
        elif record.kind in _ENDS:
            begun.pop(_what(record, *_ENDS[record.kind]), None)
    return tuple(begun.values())


def _what(record: Record, thing: Thing, field: str) -> tuple[Thing, TurnId | None, str]:
    name: str = record.body[field]
    # Which turn begins or ends is what folding goes by: the body.
    return thing, TurnId(name) if thing == "turn" else record.turn_id, name
