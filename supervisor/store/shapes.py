"""What the body of each kind of record must have in it, for those who read it again.

Imports, repairs and starts go by this one table. Only the outside: that a field is there, and that
it is text, a number, a list or an object. What lies inside objects is found out by folding. A field
that is added to a kind some day goes under `optional`, since older records do not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from supervisor.core.errors import shown
from supervisor.core.facts import Body, Kind

Types: TypeAlias = tuple[type, ...]

NOTHING: Final[Types] = (type(None),)
TEXT: Final[Types] = (str,)
WHOLE: Final[Types] = (int,)
NUMBER: Final[Types] = (int, float)
FLAG: Final[Types] = (bool,)
LIST: Final[Types] = (list,)
OBJECT: Final[Types] = (dict,)
TEXT_OR_NONE: Final = TEXT + NOTHING
WHOLE_OR_NONE: Final = WHOLE + NOTHING
NUMBER_OR_NONE: Final = NUMBER + NOTHING
OBJECT_OR_NONE: Final = OBJECT + NOTHING
ANYTHING: Final[Types] = (str, int, float, bool, list, dict, *NOTHING)


@attrs.frozen
class Shape:
    """The fields of a body: those it must have, and those it may have."""

    needed: Mapping[str, Types]
    optional: Mapping[str, Types]


def _shape(*, optional: Mapping[str, Types] | None = None, **needed: Types) -> Shape:
    return Shape(needed, optional or {})


_SILENCE: Final = _shape(waits_for=TEXT, detail=TEXT_OR_NONE, since=NUMBER, seconds=NUMBER)

SHAPES: Final[Mapping[Kind, Shape]] = {
    "session_created": _shape(
        agent=TEXT,
        key=TEXT_OR_NONE,
        kind=TEXT,
        name=TEXT_OR_NONE,
        title=TEXT_OR_NONE,
        tags=LIST,
        custom=OBJECT,
        workspace=TEXT_OR_NONE,
        lineage=OBJECT,
        terms=OBJECT,
        limits=OBJECT_OR_NONE,
        permissions=OBJECT,
    ),
    "session_changed": _shape(
        optional={
            "title": TEXT_OR_NONE,
            "tags": LIST,
            "custom": OBJECT,
            "limits": OBJECT,
            "epoch": WHOLE,
            "stopping": OBJECT,
            "leaving": FLAG,
            "agent_gone": FLAG,
            "zombie": TEXT_OR_NONE,
            "verdict": TEXT_OR_NONE,
            "news_read": WHOLE,
            "deleted": OBJECT,
        }
    ),
    "session_started": _shape(),
    "session_suspended": _shape(),
    "session_resumed": _shape(woken=FLAG),
    "session_cleared": _shape(chapter=WHOLE),
    "session_archived": _shape(archived=FLAG),
    "session_stopped": _shape(reason=TEXT, detail=TEXT_OR_NONE, failure=OBJECT_OR_NONE),
    "agent_attached": _shape(agent_session_id=TEXT_OR_NONE, pid=WHOLE_OR_NONE, capabilities=OBJECT),
    "agent_restarting": _shape(attempt=WHOLE, after_seconds=NUMBER, failure=OBJECT, recent=LIST),
    "input_accepted": _shape(
        input_id=TEXT,
        text=TEXT,
        when_busy=TEXT,
        number=WHOLE,
        source=TEXT,
        generation=WHOLE,
        expires_at=NUMBER_OR_NONE,
        attachments=LIST,
        replacement=FLAG,
    ),
    "input_changed": _shape(inputs=OBJECT),
    "input_settled": _shape(input_id=TEXT, outcome=TEXT, detail=TEXT_OR_NONE),
    "steered": _shape(input_id=TEXT, how=TEXT),
    "generation_raised": _shape(generation=WHOLE),
    "turn_started": _shape(turn_id=TEXT, input_id=TEXT, source=TEXT),
    "user_text": _shape(text=TEXT, part=TEXT_OR_NONE, optional={"steered": FLAG}),
    "agent_text": _shape(text=TEXT, part=TEXT_OR_NONE, optional={"continues": FLAG}),
    "thought": _shape(text=TEXT, part=TEXT, continues=FLAG),
    "plan": _shape(entries=ANYTHING),
    "usage": _shape(input_tokens=WHOLE, output_tokens=WHOLE, cost=NUMBER),
    "interrupted": _shape(
        scope=TEXT,
        reason=TEXT_OR_NONE,
        step=TEXT_OR_NONE,
        optional={"turn_id": TEXT_OR_NONE, "call_id": TEXT_OR_NONE},
    ),
    "turn_ended": _shape(
        turn_id=TEXT,
        outcome=TEXT,
        stop_reason=TEXT_OR_NONE,
        text=TEXT,
        error=TEXT_OR_NONE,
        zombie=FLAG,
        ladder_step=TEXT_OR_NONE,
        usage=OBJECT,
        messages=WHOLE,
        seconds=NUMBER,
    ),
    "warning": _shape(text=TEXT, optional={"update": ANYTHING}),
    "quiet": _SILENCE,
    "stalled": _SILENCE,
    "progress_resumed": _shape(was=TEXT_OR_NONE),
    "child_started": _shape(
        child=TEXT, agent=TEXT, name=TEXT_OR_NONE, role=TEXT_OR_NONE, text=TEXT, resumed=FLAG
    ),
    "child_ended": _shape(
        child=TEXT,
        agent=TEXT,
        name=TEXT_OR_NONE,
        role=TEXT_OR_NONE,
        outcome=TEXT_OR_NONE,
        text=TEXT,
        reason=TEXT_OR_NONE,
        detail=TEXT_OR_NONE,
    ),
    "spawn_refused": _shape(
        agent=TEXT, limit=TEXT, used=NUMBER_OR_NONE, allowed=NUMBER_OR_NONE, detail=TEXT
    ),
    "tool_call": _shape(call_id=TEXT, name=TEXT, input=ANYTHING, cancellable=FLAG),
    "tool_update": _shape(call_id=TEXT, name=TEXT, update=ANYTHING),
    "tool_ended": _shape(call_id=TEXT, name=TEXT, outcome=TEXT, result=ANYTHING),
    "permission_asked": _shape(
        request_id=TEXT,
        tool=TEXT,
        question=TEXT,
        input=OBJECT_OR_NONE,
        options=LIST,
        asks=TEXT,
    ),
    "permission_answered": _shape(request_id=TEXT, decision=TEXT, by=TEXT),
    "rule_changed": _shape(rule_id=TEXT, tool=TEXT, decision=TEXT_OR_NONE),
}

# The kinds of which the shape says all that gets into a row; most of what is in a file is of these.
FLAT: Final[frozenset[Kind]] = frozenset(
    {
        "agent_text",
        "input_settled",
        "permission_answered",
        "progress_resumed",
        "quiet",
        "stalled",
        "tool_call",
        "tool_ended",
        "usage",
        "user_text",
    }
)


def misfit(kind: Kind, body: Body) -> str | None:
    """What is wrong with the body of a record of that kind; None if nothing is."""
    name = _wrong_field(kind, body)
    if name is None:
        return None
    if name not in body:
        return f"a {kind} without {name}"
    return f"a {kind} whose {name} is {shown(body[name])}"


def _wrong_field(kind: Kind, body: Body) -> str | None:
    """The first field that is not there, or is of another type than it has; None if all fit."""
    shape = SHAPES[kind]
    for name, types in shape.needed.items():
        if name not in body or type(body[name]) not in types:
            return name
    for name, types in shape.optional.items():
        if name in body and type(body[name]) not in types:
            return name
    return None
