"""What the files of other systems have in common: fields that may be missing, times as text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from supervisor.core.errors import ImportFailed, shown

T = TypeVar("T")

# What their own readers take for the longest line.
LONGEST_LINE: Final = 10 * 1024 * 1024
_MEND: Final = "is it the right file, and the right format? Mend that line, or leave it out"


def field(thing: Mapping[str, Any], name: str, kind: type[T], *, line: int | None) -> T:
    """A field of that type, or nothing of that type if there is none; null is none."""
    value = thing.get(name)
    if value is None:
        return kind()
    if type(value) is not kind:
        raise ImportFailed(f"its {name} is {shown(value)}", hint=_MEND, line=line)
    return value


def objects(thing: Mapping[str, Any], name: str, *, line: int | None) -> list[dict[str, Any]]:
    """A field that is a list of objects."""
    found = field(thing, name, list, line=line)
    if not all(isinstance(item, dict) for item in found):
        raise ImportFailed(
            f"its {name} has something in it that is no object", hint=_MEND, line=line
        )
    return found


def instant(thing: Mapping[str, Any], name: str, *, line: int | None) -> float | None:
    """A time in RFC 3339, in seconds; None if there is none, or it is Go's zero, in the year 1."""
    text = field(thing, name, str, line=line)
    if not text:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ImportFailed(f"its {name} is {shown(text)}", hint=_MEND, line=line) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return moment.timestamp() if moment.year > 1 else None


def told(**fields: str) -> dict[str, str]:
    """What is worth keeping beside the conversation, but for what is empty."""
    return {name: value for name, value in fields.items() if value}
