"""A record in a few words: when, what kind, and what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import json_text
from supervisor.cli.terminal.times import clock, duration
from supervisor.core.records import Record

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
# What is said first of each kind, by the names in its body. What is not here is told whole.
_SAID: Final[Mapping[str, tuple[str, ...]]] = {
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
KIND_WIDTH: Final = 19


def cells_of(record: Record, *, seq_width: int = 4) -> list[Cell]:
    """The record as one line."""
    return [
        Cell(f"{record.seq:>{seq_width}}  {clock(record.at)}  ", "dim"),
        Cell(f"{record.kind:<{KIND_WIDTH}}  ", _STYLES.get(record.kind, "bold")),
        Cell(said_by(record)),
    ]


def said_by(record: Record) -> str:
    """What it says, without its kind."""
    body = record.body
    if record.kind == "agent_restarting":
        return f"attempt {body.get('attempt')}, in {_seconds(body.get('after_seconds'))}"
    names = _SAID.get(record.kind)
    if names is None:
        return ", ".join(_leaves("", body))
    said = [_text(body[name]) for name in names if body.get(name) not in (None, "", {}, [])]
    seconds = body.get("seconds")
    if seconds is not None:
        said.append(_seconds(seconds))
    return ", ".join(said)


def _leaves(path: str, body: Mapping[str, Any]) -> Iterator[str]:
    """All that is in it, each with the way to it; what is null or false is not worth a word."""
    for name, value in body.items():
        way = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from _leaves(way, value)
        elif value is not None and value is not False:
            yield f"{way}={_text(value)}"


def _text(value: Any) -> str:  # noqa: ANN401 - whatever a body has
    return value if isinstance(value, str) else json_text(value)


def _seconds(value: Any) -> str:  # noqa: ANN401 - whatever a body has
    return duration(value) if isinstance(value, int | float) else "a while"
