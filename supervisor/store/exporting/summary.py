"""What stands at the head of an export, and at the foot of a turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from supervisor.core.facts import TITLE_LETTERS
from supervisor.core.info import Info
from supervisor.core.redaction import COVER, redacted, redacted_value

from .plain import stamp

# The fields in which somebody else may have put anything.
_SAID: Final = (
    "agent", "key", "name", "title", "custom", "workspace", "role", "stop_reason", "stop_detail",
)  # fmt: skip


def covered(info: Info) -> Info:
    """The same with everything covered that looks like a secret."""
    title = info.title
    if title is not None and len(title) == TITLE_LETTERS:
        # It was cut out of a text, and half a secret at its end has no shape.
        title = f"{title.rpartition(' ')[0]} {COVER}".strip()
    said = {name: getattr(info, name) for name in _SAID}
    tags = tuple(redacted(tag) for tag in info.tags)
    return attrs.evolve(info, **redacted_value({**said, "title": title}), tags=tags)


def title_of(info: Info) -> str:
    """What the session is called; somebody may have called it nothing at all."""
    return info.title or info.name or f"Session {info.id}"


def facts_of(info: Info) -> Iterator[tuple[str, str]]:
    """What there is to know about it, by name."""
    told = {
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
        "created": stamp(info.created_at),
        "last active": stamp(info.last_active_at),
        "turns": str(info.turns),
        "spent": spent(attrs.asdict(info.usage)),
    }
    yield from ((name, value) for name, value in told.items() if value)
    yield from ((f"custom {name}", value) for name, value in info.custom.items())


def spent(usage: Mapping[str, Any]) -> str:
    """Tokens and money, or nothing if there were none."""
    numbers = {name: value for name, value in usage.items() if isinstance(value, int | float)}
    tokens_in, tokens_out = numbers.get("input_tokens", 0), numbers.get("output_tokens", 0)
    cost = numbers.get("cost", 0)
    parts = [f"{tokens_in:,} tokens in", f"{tokens_out:,} out"] if tokens_in or tokens_out else []
    return ", ".join([*parts, *([f"cost {cost:.4f}"] if cost else [])])


def _state(info: Info) -> str:
    reason = f", {info.stop_reason}" if info.stop_reason else ""
    return f"{info.badge}{reason}{', archived' if info.archived else ''}"
