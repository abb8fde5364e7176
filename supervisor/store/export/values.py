"""Format values as harmless, readable text, and the header of an export."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from supervisor.core.info import Info
from supervisor.core.records import MAX_TITLE_CHARS
from supervisor.core.redaction import REDACTED, redact, redact_value
from supervisor.core.text import one_line, printable


def readable_value(value: Any) -> str:  # noqa: ANN401 - any plain data
    """Return text unchanged, and other plain data as JSON."""
    if isinstance(value, str):
        return printable(value)
    return printable(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def excerpt(value: Any, letters: int = 80) -> str:  # noqa: ANN401 - any plain data
    """Return the start of a value on one line; for a mapping with one value, of that value."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = one_line(text[: 4 * letters])
    return line if len(line) <= letters else line[: letters - 1] + "…"


def plan_entry(value: Any) -> str:  # noqa: ANN401 - any plain data
    """Return the text of a plan entry; many agents send `content` and `status`."""
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        return readable_value(value)
    status = value.get("status")
    return printable(f"{value['content']} ({status})" if status else value["content"])


def timestamp(at: float) -> str:
    """Return a point in time, to the second."""
    try:
        moment = dt.datetime.fromtimestamp(at, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at} s"  # out of the range of datetime
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def time_of_day(at: float) -> str:
    """Return the time of day of a point in time."""
    full = timestamp(at).split()
    return full[1] if full[-1] == "UTC" else full[0]


def duration(seconds: float) -> str:
    """Return a number of seconds in readable units."""
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


# The fields whose text comes from users or agents.
_REDACTED_FIELDS: Final = (
    "agent", "key", "name", "title", "custom", "workspace", "role", "stop_reason", "stop_detail",
)  # fmt: skip


def redacted_info(info: Info) -> Info:
    """Return the info with all text replaced that looks like a secret."""
    title = info.title
    if title is not None and len(title) == MAX_TITLE_CHARS:
        # It was cut from a text, and half a secret at its end would not be recognised.
        title = f"{title.rpartition(' ')[0]} {REDACTED}".strip()
    fields = {name: getattr(info, name) for name in _REDACTED_FIELDS}
    tags = tuple(redact(tag) for tag in info.tags)
    return attrs.evolve(info, **redact_value({**fields, "title": title}), tags=tags)


def session_title(info: Info) -> str:
    """Return the title of the session; its name or id if it has none."""
    return info.title or info.name or f"Session {info.id}"


def session_fields(info: Info) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the header."""
    fields = {
        "session": info.id,
        "agent": info.agent,
        "key": info.key,
        "kind": info.kind,
        "name": info.name,
        "tags": ", ".join(info.tags),
        "workspace": info.workspace,
        "parent": info.parent,
        "role": info.role,
        "state": _state(info),
        "created": timestamp(info.created_at),
        "last active": timestamp(info.last_active_at),
        "turns": str(info.turns),
        "spent": usage_text(attrs.asdict(info.usage)),
    }
    yield from ((name, value) for name, value in fields.items() if value)
    yield from ((f"custom {name}", value) for name, value in info.custom.items())


def usage_text(usage: Mapping[str, Any]) -> str:
    """Return tokens and cost as text; empty if there are none."""
    numbers = {name: value for name, value in usage.items() if isinstance(value, int | float)}
    tokens_in, tokens_out = numbers.get("input_tokens", 0), numbers.get("output_tokens", 0)
    cost = numbers.get("cost", 0)
    parts = [f"{tokens_in:,} tokens in", f"{tokens_out:,} out"] if tokens_in or tokens_out else []
    return ", ".join([*parts, *([f"cost {cost:.4f}"] if cost else [])])


def _state(info: Info) -> str:
    reason = f", {info.stop_reason}" if info.stop_reason else ""
    return f"{info.badge}{reason}{', archived' if info.archived else ''}"
