"""A record as one line: time, kind and contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from supervisor.core.records import Record

from .columns import Cell
from .output import json_text
from .times import format_duration, format_time

_STYLES: Final = {
    "agent_text": "green",
    "user_text": "cyan",
    "thought": "dim",
    "error": "red",
    "stalled": "red",
    "quiet": "yellow",
    "interrupted": "yellow",
    "spawn_refused": "red",
    "agent_restarting": "yellow",
    "permission_asked": "magenta",
    "warning": "yellow",
}
# The body fields that are printed first, by kind. Other kinds are printed completely.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "session_created": ("agent", "name"),
    "session_stopped": ("reason", "detail"),
    "agent_attached": ("agent_session_id", "pid"),
    "input_accepted": ("when_busy", "text"),
    "input_settled": ("outcome", "detail", "input_id"),
    "steered": ("how", "input_id"),
    "turn_started": ("source", "turn_id"),
    "user_text": ("text",),
    "agent_text": ("text",),
    "thought": ("text",),
    "turn_ended": ("outcome", "error", "stop_reason"),
    "tool_call": ("name", "input", "call_id"),
    "tool_update": ("name", "update"),
    "tool_ended": ("name", "outcome", "result"),
    "permission_asked": ("tool", "question"),
    "permission_answered": ("decision", "by"),
    "interrupted": ("scope", "step", "reason"),
    "child_started": ("agent", "name", "child"),
    "child_ended": ("name", "child", "outcome", "reason", "text"),
    "spawn_refused": ("agent", "limit", "detail"),
    "quiet": ("waits_for", "detail"),
    "stalled": ("waits_for", "detail"),
    "progress_resumed": ("was",),
}
# The counts of an interrupt, printed if they are not zero.
_COUNTS: Final = ("matched", "stopped", "unreachable")
KIND_WIDTH: Final = 19


def record_cells(record: Record, *, seq_width: int = 4) -> list[Cell]:
    """Return the record as the cells of one line."""
    return [
        Cell(f"{record.seq:>{seq_width}}  {format_time(record.at)}  ", "dim"),
        Cell(f"{record.kind:<{KIND_WIDTH}}  ", _STYLES.get(record.kind, "bold")),
        Cell(body_text(record)),
    ]


def body_text(record: Record) -> str:
    """Return the contents of the record, without its kind."""
    body = record.body
    if record.kind == "agent_restarting":
        return f"attempt {body.get('attempt')}, in {_seconds_text(body.get('after_seconds'))}"
    names = _FIELDS.get(record.kind)
    if names is None:
        return ", ".join(_all_fields("", body))
    said = [_value_text(body[name]) for name in names if body.get(name) not in (None, "", {}, [])]
    if record.kind == "interrupted":
        said += [f"{body[name]} {name}" for name in _COUNTS if body.get(name)]
    seconds = body.get("seconds")
    if seconds is not None:
        said.append(_seconds_text(seconds))
    return ", ".join(said)


def _all_fields(path: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield all values with their paths; null and false are left out."""
    for name, value in body.items():
        way = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from _all_fields(way, value)
        elif value is not None and value is not False:
            yield f"{way}={_value_text(value)}"


def _value_text(value: Any) -> str:  # noqa: ANN401 - bodies have many types
    return value if isinstance(value, str) else json_text(value)


def _seconds_text(value: Any) -> str:  # noqa: ANN401 - bodies have many types
    return format_duration(value) if isinstance(value, int | float) else "a while"
