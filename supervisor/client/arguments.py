"""Checks of arguments in the client: the same errors as in the embedding API, before sending.

Rule 1: the checks are those of the embedding API, from the table that the daemon uses, so that
        the errors are the same on both sides.
Rule 2: a value that JSON would change or cannot express is not sent.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from supervisor.api.params import BODY_CONSTRAINTS
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.limits import Lifetime, Limits, OnEnd
from supervisor.core.scopes import Scope, ToolCall, TurnScope
from supervisor.core.session_values import WhenBusy
from supervisor.core.validation import (
    check_bool,
    check_child_ttl_seconds,
    check_choice,
    check_key,
    check_tags,
)
from supervisor.handles.arguments import change_limits, check_limits, check_options, check_scope
from supervisor.handles.shapes import Options

_CHOICES: Final[Mapping[str, object]] = {
    "when_busy": WhenBusy,
    "if_stopped": Literal["resume", "reject"],
    "queued": Literal["keep", "cancel"],
    "lifetime": Lifetime,
    "on_end": OnEnd,
    "when": Literal["now", "after_turn"],
}
_FLAGS: Final = frozenset({"dry_run", "force", "redact"})


def checked_arguments(
    arguments: Mapping[str, Any], *, required: Collection[str] = ()
) -> dict[str, Any]:
    """Return the arguments to send; raise the error of the embedding API for an invalid one.

    None means "not given", except for `required` arguments.
    """
    always_checked = {*required, *_CHOICES, *_FLAGS}
    return {
        name: (
            value
            if value is None and name not in always_checked
            else _checked_argument(name, value)
        )
        for name, value in arguments.items()
    }


def _checked_argument(name: str, value: Any) -> Any:  # noqa: ANN401 - arguments have many types
    if name == "tags":
        return check_tags(value)  # an iterator is read only here
    if name == "limits":
        check_limits(value)
    elif name in _CHOICES:
        check_choice(name, value, _CHOICES[name])
    elif name in _FLAGS:
        check_bool(name, value)
    elif name in BODY_CONSTRAINTS:
        BODY_CONSTRAINTS[name].check(value)
    return value


def session_arguments(
    options: Mapping[str, Any], *, required: Collection[str] = ()
) -> dict[str, Any]:
    """Return the arguments of a new session to send; raise as `create` does for invalid ones.

    The workspace is made absolute, because the daemon has another working directory.
    """
    arguments = checked_arguments(options, required={*required, "tags"})
    if arguments.get("key") is not None:
        arguments["key"] = str(check_key(arguments["key"]))
    if arguments.get("workspace") is not None:
        arguments["workspace"] = os.path.abspath(arguments["workspace"])  # noqa: PTH100 - it need not exist yet
    return arguments


def child_arguments(arguments: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Return the arguments of a new child to send; raise as `spawn` does for invalid ones."""
    check_options("a child", options)
    if arguments["ttl_seconds"] is not None:
        check_child_ttl_seconds(arguments["ttl_seconds"])
    return session_arguments({**arguments, **options}, required={"agent", "text"})


def limits_argument(limits: object) -> object:
    """Return the limits to send: a `Limits` or a mapping; raise as `set` does for invalid ones."""
    if isinstance(limits, Mapping) and limits:
        change_limits(Limits(), limits)
    elif limits is not None and not isinstance(limits, Limits):
        raise ConfigError(
            f"limits is {short_repr(limits)}", hint="give supervisor.Limits(...), or a mapping"
        )
    return limits


def scope_arguments(scope: Scope) -> dict[str, str]:
    """Return the arguments that name an interrupt's scope; raise as `interrupt` does."""
    check_scope(scope)
    if isinstance(scope, TurnScope):
        return {"scope": "turn", "turn_id": scope.id}
    if isinstance(scope, ToolCall):
        return {"scope": "tool_call", "call_id": scope.id}
    return {"scope": scope}
