"""Short printable texts made of values of agents and users, which may have any size and shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from supervisor.core.text import one_line, printable

MAX_BRIEF_CHARACTERS: Final = 240
# Longer than a brief text, because blanks and sequences are removed from it.
_MAX_READ: Final = 4 * MAX_BRIEF_CHARACTERS
_MAX_INPUT_CHARACTERS: Final = 16_384
_MAX_ENTRIES: Final = 100
_ELLIPSIS: Final = "…"
# The fields that say what a call is about, best first.
_MAIN_FIELDS: Final = (
    "command",
    "cmd",
    "file_path",
    "path",
    "abs_path",
    "filename",
    "url",
    "query",
    "pattern",
    "description",
    "prompt",
    "text",
)


def brief(value: object, limit: int = MAX_BRIEF_CHARACTERS) -> str:
    """Return the value as one short line: a text itself, other values as JSON."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else _json(value)
    read = max(_MAX_READ, 2 * limit)
    line = one_line(text[:read])
    if len(line) > limit or len(text) > read:
        return line[: limit - 1] + _ELLIPSIS
    return line


def first_line(value: object) -> str:
    """Return the first line with text of a result, with the number of further lines."""
    text = _text_of(value)
    head = printable(text[:_MAX_READ]).strip().partition("\n")[0]
    line = brief(head) if head else ""
    more = text.strip("\n").count("\n") if line else 0
    return f"{line} (+{more} lines)" if more > 0 else line


def call_about(arguments: object) -> str:
    """Return what a tool call is about: its command, path or query; else all its arguments."""
    if not isinstance(arguments, Mapping):
        return brief(arguments)
    for name in _MAIN_FIELDS:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return brief(value)
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value[:9]):
            return brief(" ".join(map(str, value[:_MAX_ENTRIES])))
    pairs = list(arguments.items())[:_MAX_ENTRIES]
    return brief(" ".join(f"{name}={brief(value, 60)}" for name, value in pairs))


def full_input(value: object) -> str:
    """Return the input of a request as people read it before they decide: one field a line."""
    if value is None or value == {}:
        return ""
    if isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values()):
        text = "\n".join(f"{name}: {one}" for name, one in list(value.items())[:_MAX_ENTRIES])
    else:
        text = value if isinstance(value, str) else _json(value)
    more = len(text) - _MAX_INPUT_CHARACTERS
    shown = printable(text[:_MAX_INPUT_CHARACTERS])
    return shown if more <= 0 else f"{shown}{_ELLIPSIS} and {more} more characters"


def plan_entries(entries: object) -> tuple[tuple[str, str], ...]:
    """Return the status and the text of each entry of a plan."""
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return (("", brief(entries)),) if entries else ()
    return tuple(_plan_entry(entry) for entry in entries[:_MAX_ENTRIES])


def _plan_entry(entry: object) -> tuple[str, str]:
    if not isinstance(entry, Mapping):
        return "", brief(entry)
    text = next((entry[name] for name in ("content", "text", "title") if entry.get(name)), None)
    return brief(entry.get("status"), 20), brief(entry if text is None else text)


def _text_of(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for name in ("text", "output", "stdout", "content", "error"):
            found = value.get(name)
            if isinstance(found, str) and found.strip():
                return found
    if isinstance(value, list) and len(value) == 1:
        return _text_of(value[0])
    return _json(value)


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return json.dumps(value, ensure_ascii=False, default=str)
