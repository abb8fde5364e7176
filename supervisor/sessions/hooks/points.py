"""The table of hook points: the fields of each event, and the fields that a hook may change.

Rule 1: every point is a row of this table. An event has exactly the fields of its row.
Rule 2: a hook changes only the fields that its point allows, and each change passes its rule.
Rule 3: a hook may lower permissions, limits and durations, and never raise them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

import attrs

from supervisor.core.errors import ConfigError, SpawnRefused, short_repr
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions, narrow_to_parent
from supervisor.core.text import plain_text
from supervisor.core.validation import (
    check_attachments,
    check_custom,
    check_name,
    check_permission_names,
    check_session_name,
    check_tags,
    check_ttl_seconds,
)

BlockingPoint: TypeAlias = Literal[
    "session_create",
    "session_resume",
    "input_submitted",
    "prompt_assembled",
    "turn_start",
    "tool_before",
    "permission",
    "spawn_before",
]
ObservedPoint: TypeAlias = Literal[
    "session_start",
    "session_stop",
    "session_end",
    "turn_end",
    "tool_after",
    "spawn_after",
    "record_written",
    "health_changed",
]
PointName: TypeAlias = BlockingPoint | ObservedPoint

# Called with the present value and the value from the hook; returns the value to use. Raises
# `Widened` if that would allow more, or a `SupervisorError` if the value is invalid.
ChangeRule: TypeAlias = Callable[[Any, Any], Any]


class Widened(Exception):
    """A hook returned a value that allows more than the current value."""


@attrs.frozen
class Point:
    """A row of the table: a point, the fields of its events, and the rules for changes.

    `fields` has a description for each field name; `may_change` has a rule for each field that a
    hook may change.
    """

    name: PointName
    kind: Literal["blocking", "observed"]
    description: str
    fields: Mapping[str, str]
    may_change: Mapping[str, ChangeRule]


# Rules ------------------------------------------------------------------------------------


def _text(_: object, changed: object) -> str:
    # The length is not bounded: the text for the agent is not stored.
    if not isinstance(changed, str) or not changed.strip():
        raise ConfigError(f"text is {short_repr(changed)}", hint="pass text that is not blank")
    return plain_text(changed)


def _attachments(_: object, changed: Any) -> tuple[Mapping[str, Any], ...]:  # noqa: ANN401
    return check_attachments(changed)


def _name(_: object, changed: object) -> str:
    return check_session_name(changed)


def _title(_: object, changed: object) -> str:
    return check_name("title", changed)


def _tags(_: object, changed: Any) -> tuple[str, ...]:  # noqa: ANN401 - `check_tags` validates it
    return check_tags(changed)


def _custom(_: object, changed: Any) -> dict[str, str]:  # noqa: ANN401 - `check_custom` validates
    return check_custom(changed)


def _narrower(given: Permissions, changed: object) -> Permissions:
    if not isinstance(changed, Permissions):
        raise ConfigError(
            f"permissions is {short_repr(changed)}", hint="pass supervisor.Permissions"
        )
    try:
        return narrow_to_parent(given, check_permission_names(changed))
    except SpawnRefused:
        raise Widened from None


def _shorter(given: float | None, changed: object) -> float | None:
    seconds = None if changed is None else check_ttl_seconds(changed)
    _refuse_more(given, seconds)
    return seconds


def _lower(given: Limits, changed: object) -> Limits:
    if not isinstance(changed, Limits):
        raise ConfigError(f"limits is {short_repr(changed)}", hint="pass supervisor.Limits")
    for limit in attrs.fields(Limits):
        _refuse_more(getattr(given, limit.name), getattr(changed, limit.name))
    return changed


def _refuse_more(given: float | None, changed: float | None) -> None:
    """Raise Widened if `changed` is above `given`; None means unlimited."""
    if given is not None and (changed is None or changed > given):
        raise Widened


# The table --------------------------------------------------------------------------------


def _row(
    kind: Literal["blocking", "observed"],
    name: PointName,
    description: str,
    fields: Mapping[str, str],
    may_change: Mapping[str, ChangeRule],
) -> Point:
    assert may_change.keys() <= fields.keys()
    return Point(name, kind, description, MappingProxyType(fields), MappingProxyType(may_change))


def _blocking(
    name: BlockingPoint, description: str, fields: Mapping[str, str], /, **may_change: ChangeRule
) -> Point:
    return _row("blocking", name, description, fields, may_change)


def _observed(name: ObservedPoint, description: str, fields: Mapping[str, str]) -> Point:
    return _row("observed", name, description, fields, {})


_ROWS: Final = (
    _blocking(
        "session_create",
        "a session is about to be created; it does not have an id yet",
        {
            "agent": "the name of its agent",
            "key": "its key as text, or None",
            "name": "its name, or None",
            "title": "its title, or None",
            "tags": "a tuple of tag names",
            "custom": "a dict of text to text",
            "workspace": "a path, or None",
            "limits": "`Limits` of the session and its descendants",
            "permissions": "`Permissions` of the session",
        },
        name=_name,
        title=_title,
        tags=_tags,
        custom=_custom,
        limits=_lower,
        permissions=_narrower,
    ),
    _blocking(
        "session_resume",
        "a stopped session is about to be resumed",
        {"agent": "the name of its agent", "reason": "its stop reason"},
    ),
    # The text cannot be changed here: the stored input is the text that the user wrote.
    # `prompt_assembled` changes the text for the agent.
    _blocking(
        "input_submitted",
        "an input has arrived and is not accepted yet",
        {
            "input_id": "the id that the input will have",
            "text": "the text as it was sent",
            "attachments": "a tuple of dicts",
            "when_busy": "`queue`, `steer`, `interrupt` or `reject`",
            "source": "the sender: `user`, `parent`, `child`, ...",
            "ttl_seconds": "the longest time that it may wait, or None",
        },
        ttl_seconds=_shorter,
    ),
    _blocking(
        "turn_start",
        "a turn is about to start",
        {
            "input_id": "the input of the turn",
            "text": "the text as it was sent",
            "source": "the sender of the input",
        },
    ),
    _blocking(
        "prompt_assembled",
        "a prompt is about to be sent to the agent; the stored input stays as the user wrote it",
        {
            "input_id": "the input of the turn",
            "text": "the text for the agent",
            "attachments": "a tuple of dicts",
        },
        text=_text,
        attachments=_attachments,
    ),
    # The input cannot be changed: the agent runs the tool itself, with its own input, and the
    # record would state another one.
    _blocking(
        "tool_before",
        "an agent is about to use a tool",
        {
            "call_id": "the id that the call will have",
            "name": "the name of the tool",
            "input": "the arguments of the tool: a dict, or None",
        },
    ),
    # No field can be changed: a hook may reject for the user, and never allow.
    _blocking(
        "permission",
        "an agent requests permission for a tool",
        {
            "request_id": "the id that the request will have",
            "tool": "the name of the tool",
            "question": "the question for the user",
            "kind": "the kind of the tool (`read`, `edit`, ...), or None",
            "input": "the arguments of the tool: a dict, or None",
            "options": "the decisions that are offered",
        },
    ),
    _blocking(
        "spawn_before",
        "a child is about to be created; the event's session is the parent",
        {
            "agent": "the name of its agent",
            "text": "the first input of the child",
            "name": "its name, or None",
            "role": "its role",
            "lifetime": "`with_parent` or `detached`",
            "on_end": "`tell` or `wake`",
            "ttl_seconds": "the longest time that it may exist, or None",
            "permissions": "`Permissions` of the child, within those of its parent",
        },
        ttl_seconds=_shorter,
        permissions=_narrower,
    ),
    _observed("session_start", "a session's agent has started", {"agent": "its name"}),
    _observed(
        "session_stop",
        "a session has stopped",
        {"reason": "its stop reason", "detail": "further detail, or None"},
    ),
    _observed(
        "session_end",
        "a conversation, or its current chapter, has ended for good",
        {"reason": "`archive`, `reset`, `delete`, `timeout` or `new`"},
    ),
    _observed(
        "turn_end",
        "a turn has ended",
        {
            "outcome": "`completed`, `interrupted`, `failed`, `timed_out` or `lost`",
            "stop_reason": "the agent's own stop reason, or None",
            "text": "the text of the turn's result",
            "error": "the error, or None",
        },
    ),
    _observed(
        "tool_after",
        "a tool call has ended",
        {
            "call_id": "the id of the call",
            "name": "the name of the tool",
            "outcome": "`completed`, `failed` or `interrupted`",
            "result": "the result as plain data",
        },
    ),
    _observed(
        "spawn_after",
        "a child was created; the event's session is the parent",
        {
            "child_id": "the id of the child",
            "agent": "the name of its agent",
            "name": "its name, or None",
            "role": "its role",
        },
    ),
    _observed(
        "record_written",
        "a record is durable",
        {
            "seq": "its number in its session",
            "at": "the time of the event",
            "kind": "the kind of record",
            "body": "the fields of that kind: a dict",
        },
    ),
    _observed(
        "health_changed",
        "the badge of a session, or the health of the store, has changed; for the store the "
        "event's session is None",
        {
            "badge": "the new badge; for the store `unhealthy` or `healthy`",
            "before": "the previous badge",
            "detail": "for the store the problem, if there is one; else None",
        },
    ),
)

POINTS: Final[Mapping[PointName, Point]] = MappingProxyType({row.name: row for row in _ROWS})


def point_named(name: object) -> Point:
    """Return the point of that name; raise ConfigError if the table has no such point."""
    point = POINTS.get(cast("PointName", name)) if isinstance(name, str) else None
    if point is None:
        raise ConfigError(
            f"unknown hook point {short_repr(name)}",
            hint=f"use one of {', '.join(POINTS)}",
        )
    return point
