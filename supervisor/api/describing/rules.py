"""What an argument must be besides its type: the checks of the embedding API, asked at the door.

They are asked here so that the answer can say which argument it was; the embedding API asks them
again, as it does everybody.
"""

from __future__ import annotations

import functools
import os.path
from collections.abc import Mapping
from typing import Any, Final, get_args

import attrs

from supervisor.api.wire.reading import Check
from supervisor.config import Settings
from supervisor.core.errors import ConfigError, shown
from supervisor.core.ids import as_key
from supervisor.core.session import Decision
from supervisor.sessions.surface import checks

MAX_PAGE: Final = 1_000
MAX_WAIT_SECONDS: Final = 60.0


@attrs.frozen
class Rule:
    """What else is asked of an argument, and how the document says so."""

    check: Check
    schema: Mapping[str, Any] = attrs.field(factory=dict)


_NAME: Final = {"minLength": 1, "pattern": r"\S"}


def _name(name: str) -> Rule:
    return Rule(functools.partial(checks.some_text, name), _NAME)


def _absolute(path: str) -> None:
    """A file of the server's: it has another working folder than whoever asks."""
    checks.checked_path("path", path)
    if not os.path.isabs(path):  # noqa: PTH117 - as text, which is what is passed on
        raise ConfigError(f"path is {shown(path)}", hint="give one that begins with /")


def _seconds(name: str) -> Rule:
    check = functools.partial(checks.some_seconds, name)
    return Rule(check, {"minimum": 0, "maximum": checks.MAX_SECONDS})


def _count(name: str) -> Rule:
    return Rule(functools.partial(checks.some_number, name, least=0), {"minimum": 0})


def _wait(seconds: float) -> None:
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise ConfigError(
            f"wait is {shown(seconds)}", hint=f"give seconds from 0 to {MAX_WAIT_SECONDS:g}"
        )


def _setting(name: str) -> Rule:
    return Rule(lambda value: Settings(**{name: value}))


IN_BODIES: Final[Mapping[str, Rule]] = {
    **{field.name: _setting(field.name) for field in attrs.fields(Settings)},
    **{name: _name(name) for name in ("agent", "name", "title", "role", "reason", "at_turn")},
    **{name: _name(name) for name in ("idempotency_key", "turn_id", "call_id")},
    "text": Rule(checks.checked_prompt, _NAME),
    "replace_with": Rule(checks.checked_prompt, _NAME),
    "key": Rule(as_key),
    "tags": Rule(checks.checked_tags),
    "custom": Rule(checks.checked_custom),
    "permissions": Rule(checks.checked_permissions),
    "attachments": Rule(checks.checked_attachments),
    "workspace": Rule(checks.checked_workspace),
    "ttl_seconds": Rule(
        checks.positive_seconds, {"exclusiveMinimum": 0, "maximum": checks.MAX_SECONDS}
    ),
    "position": _count("position"),
    "older_than_seconds": _seconds("older_than_seconds"),
    "keep_last": _count("keep_last"),
    "max_bytes": _count("max_bytes"),
    # Which of them a request offers, it says itself, and refuses with its own words.
    "decision": Rule(lambda _: None, {"enum": list(get_args(Decision))}),
    "path": Rule(_absolute, {"pattern": "^/"}),
}

IN_QUERIES: Final[Mapping[str, Rule]] = {
    "q": _name("q"),
    "cursor": Rule(checks.decoded),
    "limit": Rule(
        functools.partial(checks.some_number, "limit", most=MAX_PAGE),
        {"minimum": 1, "maximum": MAX_PAGE},
    ),
    "after": _count("after"),
    **{
        name: _seconds(name)
        for name in ("created_after", "created_before", "updated_after", "updated_before")
    },
    "at": Rule(functools.partial(checks.some_number, "at"), {"minimum": 1}),
    "wait": Rule(_wait, {"minimum": 0, "maximum": MAX_WAIT_SECONDS}),
}
