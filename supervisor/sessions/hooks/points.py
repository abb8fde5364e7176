"""The points: where hooks are asked, and what observers are told.

Rule 1: every point is a row of this table. An event has the fields of its row, and no others.
Rule 2: a hook changes only what its point's row lets it change, and only as the rule there says.
Rule 3: of rights and of numbers a hook may leave less than there was, never more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

import attrs

from supervisor.core.errors import ConfigError, SpawnRefused, shown
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions, within
from supervisor.drivers.plain import plain_text
from supervisor.sessions.surface.checks import (
    checked_attachments,
    checked_custom,
    checked_tags,
    positive_seconds,
    some_text,
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

# Gives what is taken, from what there was and what a hook would have instead; raises `Widened`,
# or a `SupervisorError` if that cannot be meant at all.
Rule: TypeAlias = Callable[[Any, Any], Any]


class Widened(Exception):
    """A hook would have more than there was."""


@attrs.frozen
class Point:
    """A row: what its events say, by the names of their fields, and what a hook may change."""

    name: PointName
    kind: Literal["blocking", "observed"]
    says: str
    fields: Mapping[str, str]
    may_change: Mapping[str, Rule]


# Rules ------------------------------------------------------------------------------------


def _text(_: object, changed: object) -> str:
    # As long as it likes: what an agent gets is not stored.
    if not isinstance(changed, str) or not changed.strip():
        raise ConfigError(f"text is {shown(changed)}", hint="give some text")
    return plain_text(changed)


def _attachments(_: object, changed: Any) -> tuple[Mapping[str, Any], ...]:  # noqa: ANN401
    return checked_attachments(changed)


def _label(_: object, changed: object) -> str:
    return some_text("name or title", changed)


def _tags(_: object, changed: Any) -> tuple[str, ...]:  # noqa: ANN401 - it says what is wrong
    return checked_tags(changed)


def _custom(_: object, changed: Any) -> dict[str, str]:  # noqa: ANN401 - it says what is wrong
    return checked_custom(changed)


def _narrower(given: Permissions, changed: object) -> Permissions:
    if not isinstance(changed, Permissions):
        raise ConfigError(f"permissions is {shown(changed)}", hint="give supervisor.Permissions")
    try:
        return within(given, changed)
    except SpawnRefused:
        raise Widened from None


def _shorter(given: float | None, changed: object) -> float | None:
    seconds = None if changed is None else positive_seconds(changed)
    _refuse_more(given, seconds)
    return seconds


def _lower(given: Limits, changed: object) -> Limits:
    if not isinstance(changed, Limits):
        raise ConfigError(f"limits is {shown(changed)}", hint="give supervisor.Limits")
    for limit in attrs.fields(Limits):
        _refuse_more(getattr(given, limit.name), getattr(changed, limit.name))
    return changed


def _refuse_more(given: float | None, changed: float | None) -> None:
    """None is no limit, and so more than any number."""
    if given is not None and (changed is None or changed > given):
        raise Widened


# The table --------------------------------------------------------------------------------


def _row(
    kind: Literal["blocking", "observed"],
    name: PointName,
    says: str,
    fields: Mapping[str, str],
    may_change: Mapping[str, Rule],
) -> Point:
    assert may_change.keys() <= fields.keys()
    return Point(name, kind, says, MappingProxyType(fields), MappingProxyType(may_change))


def _asked(
    name: BlockingPoint, says: str, fields: Mapping[str, str], /, **may_change: Rule
) -> Point:
    return _row("blocking", name, says, fields, may_change)


def _told(name: ObservedPoint, says: str, fields: Mapping[str, str]) -> Point:
    return _row("observed", name, says, fields, {})


_ROWS: Final = (
    _asked(
        "session_create",
        "a session is about to be made; it has no id yet",
        {
            "agent": "the name of its agent",
            "key": "its key as text, or None",
            "name": "its name, or None",
            "title": "its title, or None",
            "tags": "a tuple of names",
            "custom": "text by text",
            "workspace": "a path, or None",
            "limits": "`Limits`: what it and all below it may have",
            "permissions": "`Permissions`: what it may touch",
        },
        name=_label,
        title=_label,
        tags=_tags,
        custom=_custom,
        limits=_lower,
        permissions=_narrower,
    ),
    _asked(
        "session_resume",
        "a stopped session is about to be brought back",
        {"agent": "the name of its agent", "reason": "why it had stopped"},
    ),
    # Not its text: that is stored as the user wrote it. What the agent gets is changed below.
    _asked(
        "input_submitted",
        "an input has come, and is not accepted yet",
        {
            "input_id": "the id that it will have",
            "text": "as it was sent",
            "attachments": "a tuple of dicts",
            "when_busy": "`queue`, `steer`, `interrupt` or `reject`",
            "source": "whose it is: `user`, `parent`, `child`, ...",
            "ttl_seconds": "how long it may wait, or None",
        },
        ttl_seconds=_shorter,
    ),
    _asked(
        "turn_start",
        "a turn is about to begin",
        {
            "input_id": "the input that it is on",
            "text": "as it was sent",
            "source": "whose input it is",
        },
    ),
    _asked(
        "prompt_assembled",
        "the agent is about to be given this; what is stored is what the user wrote",
        {
            "input_id": "the input that the turn is on",
            "text": "what the agent gets",
            "attachments": "a tuple of dicts",
        },
        text=_text,
        attachments=_attachments,
    ),
    # Not its input: the agent runs the tool, and a record that says otherwise would be a lie.
    _asked(
        "tool_before",
        "an agent is about to use a tool",
        {
            "call_id": "the id that the call will have",
            "name": "the tool",
            "input": "what it is used on: a dict, or None",
        },
    ),
    # Nothing to change: a hook may say no for the person, never yes.
    _asked(
        "permission",
        "an agent asks whether it may do something",
        {
            "request_id": "the id that the request will have",
            "tool": "what it wants to use",
            "question": "in words",
            "kind": "what the tool does (`read`, `edit`, ...), or None",
            "input": "what it is used on: a dict, or None",
            "options": "the decisions that are offered",
        },
    ),
    _asked(
        "spawn_before",
        "a child is about to be made; the event's session is its parent",
        {
            "agent": "the name of its agent",
            "text": "what it is to do",
            "name": "its name, or None",
            "role": "its role",
            "lifetime": "`with_parent` or `detached`",
            "on_end": "`tell` or `wake`",
            "ttl_seconds": "how long it may live, or None",
            "permissions": "`Permissions`: what it would get, inside what its parent has",
        },
        ttl_seconds=_shorter,
        permissions=_narrower,
    ),
    _told("session_start", "a session's agent is up", {"agent": "its name"}),
    _told(
        "session_stop",
        "a session has stopped",
        {"reason": "its stop reason", "detail": "more about it, or None"},
    ),
    _told(
        "session_end",
        "a conversation is over for good, or its chapter is",
        {"reason": "`archive`, `reset`, `delete`, `timeout` or `new`"},
    ),
    _told(
        "turn_end",
        "a turn is over",
        {
            "outcome": "`completed`, `interrupted`, `failed`, `timed_out` or `lost`",
            "stop_reason": "the agent's own, or None",
            "text": "what came of it",
            "error": "what went wrong, or None",
        },
    ),
    _told(
        "tool_after",
        "a tool call is over",
        {
            "call_id": "the call",
            "name": "the tool",
            "outcome": "`completed`, `failed` or `interrupted`",
            "result": "what came of it, as plain data",
        },
    ),
    _told(
        "spawn_after",
        "a child was made; the event's session is its parent",
        {
            "child_id": "the child",
            "agent": "the name of its agent",
            "name": "its name, or None",
            "role": "its role",
        },
    ),
    _told(
        "record_written",
        "a record is durable",
        {
            "seq": "its number in its session",
            "at": "when that happened",
            "kind": "what happened",
            "body": "a dict",
        },
    ),
    _told(
        "health_changed",
        "a session's badge has changed; or the store's health, and then there is no session",
        {
            "badge": "what it is now; of the store, unhealthy or well",
            "before": "what it was",
            "detail": "of the store, what is wrong with it; else None",
        },
    ),
)

POINTS: Final[Mapping[PointName, Point]] = MappingProxyType({row.name: row for row in _ROWS})


def point_named(name: object) -> Point:
    """The point of that name, or `ConfigError`."""
    point = POINTS.get(cast("PointName", name)) if isinstance(name, str) else None
    if point is None:
        raise ConfigError(
            f"there is no point {shown(name)} for hooks", hint=f"choose one of {', '.join(POINTS)}"
        )
    return point
