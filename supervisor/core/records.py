"""Facts and records: kinds, body fields, and their checks; the other items of a feed.

Rule 1: a rule expresses every state change as facts.
Rule 2: a body is plain data that JSON can carry; folding needs no other data.
Rule 3: output of an agent within a turn (text, thoughts, updates) changes no row, because it is
        written while decisions wait for their commit.

A record is a fact (`facts.py`) with a number; it is stored, published and replayed. A new kind
needs a fold (`fold.py` or `fold_turns.py`), a sentence in `store/export/items.py` and in
`cli/commands/log.py`, and a row in `docs/reference/records.md`.

`BODY_FIELDS` lists the fields of each kind that imports, repairs and start-up check before they
fold: a field exists, and is text, a number, a list or an object. Folding checks the inside of
objects, and the fields `agent_session_id`, `auth` and `imported` of `session_changed`; no state
depends on its `choices`. A field added to a kind later goes under `optional`, since older records
do not have it.

`Delta` (provisional text), `Gap` (missing numbers) and `Reset` (other numbers) are the items of a
feed besides records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from .errors import RecordNotFound, short_repr
from .ids import SessionId, TurnId

DecidedKind: TypeAlias = Literal[
    "session_created",
    "session_changed",
    "session_started",
    "session_suspended",
    "session_resumed",
    "session_cleared",
    "session_archived",
    "session_stopped",
    "agent_attached",
    "options_changed",
    "input_accepted",
    "input_changed",
    "input_settled",
    "generation_raised",
    "turn_started",
    "user_text",
    "agent_text",
    "tool_call",
    "tool_ended",
    "permission_asked",
    "permission_answered",
    "rule_changed",
    "usage",
    "steered",
    "interrupted",
    "child_started",
    "child_ended",
    "spawn_refused",
    "quiet",
    "stalled",
    "progress_resumed",
    "agent_restarting",
    "turn_ended",
    "warning",
    "seen",
    "mcp_call",
]

# Of output that is data, not text.
DataKind: TypeAlias = Literal[
    "tool_update", "plan", "warning", "notice", "agent_compaction", "subagent"
]
StreamedKind: TypeAlias = Literal["agent_text", "thought", DataKind]

RecordKind: TypeAlias = Literal[DecidedKind, StreamedKind]

DECIDED: Final[tuple[DecidedKind, ...]] = get_args(DecidedKind)

STREAMED: Final[tuple[StreamedKind, ...]] = get_args(StreamedKind)

KINDS: Final[tuple[RecordKind, ...]] = tuple(dict.fromkeys((*DECIDED, *STREAMED)))

Body: TypeAlias = Mapping[str, Any]

Changes: TypeAlias = dict[str, Any]

MAX_TITLE_CHARS: Final = 60
# The length of a child's last text in the parent's news; the rest is in the child's records.
MAX_NEWS_CHARS: Final = 2000


def message_kind(role: Literal["user", "agent"]) -> Literal["user_text", "agent_text"]:
    """Return the record kind for a message of that role."""
    return "user_text" if role == "user" else "agent_text"


# Without slots, as `Receipt`: the store reads thousands.
@attrs.frozen(slots=False)
class Record:
    """One durable event of a session; `seq` counts from 1 without gaps."""

    session_id: SessionId
    seq: int
    at: float
    turn_id: TurnId | None
    kind: RecordKind
    body: Body


FieldTypes: TypeAlias = tuple[type, ...]

NONE: Final[FieldTypes] = (type(None),)

TEXT: Final[FieldTypes] = (str,)

INTEGER: Final[FieldTypes] = (int,)

NUMBER: Final[FieldTypes] = (int, float)

BOOLEAN: Final[FieldTypes] = (bool,)

LIST: Final[FieldTypes] = (list,)

OBJECT: Final[FieldTypes] = (dict,)

TEXT_OR_NONE: Final = TEXT + NONE

INTEGER_OR_NONE: Final = INTEGER + NONE

NUMBER_OR_NONE: Final = NUMBER + NONE

OBJECT_OR_NONE: Final = OBJECT + NONE

ANYTHING: Final[FieldTypes] = (str, int, float, bool, list, dict, *NONE)


@attrs.frozen
class BodyFields:
    """The required and the optional fields of a record body."""

    required: Mapping[str, FieldTypes]
    optional: Mapping[str, FieldTypes]


def _fields(
    *, optional: Mapping[str, FieldTypes] | None = None, **needed: FieldTypes
) -> BodyFields:
    return BodyFields(needed, optional or {})


_SILENCE_FIELDS: Final = _fields(waits_for=TEXT, detail=TEXT_OR_NONE, since=NUMBER, seconds=NUMBER)

BODY_FIELDS: Final[Mapping[RecordKind, BodyFields]] = {
    "session_created": _fields(
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
        optional={"options": OBJECT, "mcp_servers": LIST},
    ),
    "session_changed": _fields(
        optional={
            "name": TEXT,
            "title": TEXT_OR_NONE,
            "tags": LIST,
            "custom": OBJECT,
            "limits": OBJECT,
            "epoch": INTEGER,
            "stopping": OBJECT,
            "leaving": BOOLEAN,
            "agent_gone": BOOLEAN,
            "zombie": TEXT_OR_NONE,
            "verdict": TEXT_OR_NONE,
            "news_read": INTEGER,
            "deleted": OBJECT,
            "keeps_attention": BOOLEAN,
            "mcp_servers": LIST,
        }
    ),
    "session_started": _fields(),
    "session_suspended": _fields(),
    "session_resumed": _fields(woken=BOOLEAN),
    "session_cleared": _fields(chapter=INTEGER),
    "session_archived": _fields(archived=BOOLEAN),
    "session_stopped": _fields(reason=TEXT, detail=TEXT_OR_NONE, failure=OBJECT_OR_NONE),
    "agent_attached": _fields(
        agent_session_id=TEXT_OR_NONE, pid=INTEGER_OR_NONE, capabilities=OBJECT
    ),
    "options_changed": _fields(
        by=TEXT, optional={"options": OBJECT, "offered": LIST, "current": OBJECT}
    ),
    "agent_restarting": _fields(attempt=INTEGER, after_seconds=NUMBER, failure=OBJECT, recent=LIST),
    "input_accepted": _fields(
        input_id=TEXT,
        text=TEXT,
        when_busy=TEXT,
        number=INTEGER,
        source=TEXT,
        generation=INTEGER,
        expires_at=NUMBER_OR_NONE,
        attachments=LIST,
        replacement=BOOLEAN,
        optional={"trace": OBJECT},
    ),
    "input_changed": _fields(inputs=OBJECT),
    "input_settled": _fields(input_id=TEXT, outcome=TEXT, detail=TEXT_OR_NONE),
    "steered": _fields(input_id=TEXT, how=TEXT),
    "generation_raised": _fields(generation=INTEGER),
    "turn_started": _fields(turn_id=TEXT, input_id=TEXT, source=TEXT),
    "user_text": _fields(text=TEXT, part=TEXT_OR_NONE, optional={"steered": BOOLEAN}),
    "agent_text": _fields(text=TEXT, part=TEXT_OR_NONE, optional={"continues": BOOLEAN}),
    "thought": _fields(text=TEXT, part=TEXT, continues=BOOLEAN),
    "plan": _fields(entries=ANYTHING),
    "usage": _fields(
        input_tokens=INTEGER,
        output_tokens=INTEGER,
        cost=NUMBER,
        optional={"context_used": INTEGER, "context_size": INTEGER},
    ),
    "interrupted": _fields(
        scope=TEXT,
        reason=TEXT_OR_NONE,
        step=TEXT_OR_NONE,
        optional={
            "turn_id": TEXT_OR_NONE,
            "call_id": TEXT_OR_NONE,
            "matched": INTEGER,
            "stopped": INTEGER,
            "already_over": INTEGER,
            "unreachable": INTEGER,
        },
    ),
    "turn_ended": _fields(
        turn_id=TEXT,
        outcome=TEXT,
        stop_reason=TEXT_OR_NONE,
        text=TEXT,
        error=TEXT_OR_NONE,
        zombie=BOOLEAN,
        ladder_step=TEXT_OR_NONE,
        usage=OBJECT,
        messages=INTEGER,
        seconds=NUMBER,
        optional={"truncated": BOOLEAN},
    ),
    "warning": _fields(text=TEXT, optional={"update": ANYTHING}),
    "notice": _fields(severity=TEXT, text=TEXT, detail=TEXT_OR_NONE),
    "agent_compaction": _fields(
        compaction_id=TEXT,
        status=TEXT,
        summary=TEXT_OR_NONE,
        error=TEXT_OR_NONE,
        tokens_before=INTEGER_OR_NONE,
        tokens_after=INTEGER_OR_NONE,
    ),
    "subagent": _fields(
        subagent_id=TEXT,
        title=TEXT_OR_NONE,
        description=TEXT_OR_NONE,
        state=TEXT_OR_NONE,
        detail=TEXT_OR_NONE,
        above=TEXT_OR_NONE,
    ),
    "quiet": _SILENCE_FIELDS,
    "stalled": _SILENCE_FIELDS,
    "progress_resumed": _fields(was=TEXT_OR_NONE),
    "child_started": _fields(
        child=TEXT, agent=TEXT, name=TEXT_OR_NONE, role=TEXT_OR_NONE, text=TEXT, resumed=BOOLEAN
    ),
    "child_ended": _fields(
        child=TEXT,
        agent=TEXT,
        name=TEXT_OR_NONE,
        role=TEXT_OR_NONE,
        outcome=TEXT_OR_NONE,
        text=TEXT,
        reason=TEXT_OR_NONE,
        detail=TEXT_OR_NONE,
    ),
    "spawn_refused": _fields(
        agent=TEXT, limit=TEXT, used=NUMBER_OR_NONE, allowed=NUMBER_OR_NONE, detail=TEXT
    ),
    "tool_call": _fields(call_id=TEXT, name=TEXT, input=ANYTHING, cancellable=BOOLEAN),
    "tool_update": _fields(call_id=TEXT, name=TEXT, update=ANYTHING),
    "tool_ended": _fields(call_id=TEXT, name=TEXT, outcome=TEXT, result=ANYTHING),
    "permission_asked": _fields(
        request_id=TEXT,
        tool=TEXT,
        question=TEXT,
        input=OBJECT_OR_NONE,
        options=LIST,
        asks=TEXT,
        optional={"expires_at": NUMBER_OR_NONE, "kind": TEXT, "choices": LIST},
    ),
    "permission_answered": _fields(
        request_id=TEXT, decision=TEXT, by=TEXT, optional={"text": TEXT}
    ),
    "rule_changed": _fields(rule_id=TEXT, tool=TEXT, decision=TEXT_OR_NONE),
    "seen": _fields(seq=INTEGER),
    "mcp_call": _fields(
        caller=TEXT,
        tool=TEXT,
        outcome=TEXT,
        target=TEXT_OR_NONE,
        seconds=NUMBER,
        optional={"refused": INTEGER},
    ),
}

# The kinds whose field types are a complete check; most records are of these.
FLAT_KINDS: Final[frozenset[RecordKind]] = frozenset(
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


def body_problem(kind: RecordKind, body: Body) -> str | None:
    """Return what is wrong with the body of a record of that kind; None if nothing is."""
    name = _wrong_field(kind, body)
    if name is None:
        return None
    if name not in body:
        return f"a {kind} without {name}"
    return f"a {kind} whose {name} is {short_repr(body[name])}"


def _wrong_field(kind: RecordKind, body: Body) -> str | None:
    """Return the first field that is missing or has a wrong type; None if all fit."""
    shape = BODY_FIELDS[kind]
    for name, types in shape.required.items():
        if name not in body or type(body[name]) not in types:
            return name
    for name, types in shape.optional.items():
        if name in body and type(body[name]) not in types:
            return name
    return None


@attrs.frozen
class Delta:
    """Streamed text, provisional until the record with the same `part` arrives.

    `offset` is its start in the text of that part, in characters.
    """

    session_id: SessionId
    turn_id: TurnId
    kind: StreamedKind
    part: str
    offset: int
    text: str


@attrs.frozen
class Gap:
    """Numbers of the records, `first` to `last` inclusive, that a slow watcher has missed."""

    first: int
    last: int


@attrs.frozen
class Reset:
    """A feed was to continue after a number beyond `last`, the last one that the store has given.

    The numbers are those of another store, or of one that was restored from an older backup. The
    feed starts again from the first record: what was read before is void.
    """

    last: int

    def to_error(self) -> RecordNotFound:
        """Return the error for readers that take records only."""
        return RecordNotFound(
            f"no record has the position to continue after: the store ends at {self.last}",
            hint="it was restored from an older backup, say: go on reading, from the first record",
        )


Item: TypeAlias = Record | Delta | Gap | Reset
