"""What callers give, checked here as it would be there: a mistake is told in the same words.

Rule 1: the checks are those of the embedding API, by the table of the daemon's own door, so that
        whoever moves from one to the other reads nothing new.
Rule 2: what JSON would change, or cannot say, is not sent.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from supervisor.api.describing.rules import IN_BODIES
from supervisor.core.errors import ConfigError, shown
from supervisor.core.ids import as_key
from supervisor.core.limits import Limits
from supervisor.core.session import Lifetime, OnEnd, WhenBusy
from supervisor.sessions.surface.checks import (
    a_flag,
    changed_limits,
    checked_limits,
    checked_tags,
    known_options,
    known_word,
    scope_name,
    time_to_live,
)
from supervisor.sessions.surface.shapes import Options, Scope, ToolCall, TurnScope

_WORDS: Final[Mapping[str, object]] = {
    "when_busy": WhenBusy,
    "if_stopped": Literal["resume", "reject"],
    "queued": Literal["keep", "cancel"],
    "lifetime": Lifetime,
    "on_end": OnEnd,
    "when": Literal["now", "after_turn"],
}
_FLAGS: Final = frozenset({"dry_run", "force", "redact"})


def checked(given: Mapping[str, Any], *, needed: Collection[str] = ()) -> dict[str, Any]:
    """The arguments as they are sent; raises what the embedding API raises for them.

    None is for what was not given, unless it is `needed`.
    """
    required = {*needed, *_WORDS, *_FLAGS}
    return {
        name: value if value is None and name not in required else _checked(name, value)
        for name, value in given.items()
    }


def _checked(name: str, value: Any) -> Any:  # noqa: ANN401 - an argument
    if name == "tags":
        return checked_tags(value)  # from whatever gives them, once
    if name == "limits":
        checked_limits(value)
    elif name in _WORDS:
        known_word(name, value, _WORDS[name])
    elif name in _FLAGS:
        a_flag(name, value)
    elif name in IN_BODIES:
        IN_BODIES[name].check(value)
    return value


def of_session(options: Mapping[str, Any], *, needed: Collection[str] = ()) -> dict[str, Any]:
    """What a session is made with, as it is sent; raises what `create` raises.

    A workspace is made absolute: the daemon has another working folder than we.
    """
    given = checked(options, needed={*needed, "tags"})
    if given.get("key") is not None:
        given["key"] = str(as_key(given["key"]))
    if given.get("workspace") is not None:
        given["workspace"] = os.path.abspath(given["workspace"])  # noqa: PTH100 - it may not exist yet
    return given


def of_child(order: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """What a child is made with, as it is sent; raises what `spawn` raises."""
    known_options("a child", options)
    if order["ttl_seconds"] is not None:
        time_to_live(order["ttl_seconds"])
    return of_session({**order, **options}, needed={"agent", "text"})


def of_limits(limits: object) -> object:
    """Limits to set: all of them, or some by their names; raises what `set` raises."""
    if isinstance(limits, Mapping) and limits:
        changed_limits(Limits(), limits)
    elif limits is not None and not isinstance(limits, Limits):
        raise ConfigError(
            f"limits is {shown(limits)}", hint="give supervisor.Limits(...), or a mapping"
        )
    return limits


def named(scope: Scope) -> dict[str, str]:
    """What an interrupt names; raises what `interrupt` raises."""
    scope_name(scope)
    if isinstance(scope, TurnScope):
        return {"scope": "turn", "turn_id": scope.id}
    if isinstance(scope, ToolCall):
        return {"scope": "tool_call", "call_id": scope.id}
    return {"scope": scope}
