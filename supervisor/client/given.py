"""What callers give, as it is sent; what would only look right once it was is refused here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from supervisor.core.errors import ConfigError, InputRefused, shown
from supervisor.core.limits import Ladder, Limits, Restart
from supervisor.core.permissions import Permissions
from supervisor.sessions.surface.checks import checked_prompt
from supervisor.sessions.surface.shapes import Scope, ToolCall, TurnScope

_SHAPES: Final[Mapping[str, type]] = {
    "limits": Limits,
    "permissions": Permissions,
    "restart": Restart,
    "ladder": Ladder,
}


def prepared(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they are sent; raises `ConfigError` for what would look right when it was.

    A workspace is made absolute: the daemon has another working folder than we.
    """
    given = dict(options)
    for name, kind in _SHAPES.items():
        if given.get(name) is not None and not isinstance(given[name], kind):
            raise ConfigError(
                f"{name} is {shown(given[name])}", hint=f"give supervisor.{kind.__name__}(...)"
            )
    workspace = given.get("workspace")
    if isinstance(workspace, str | os.PathLike) and os.fspath(workspace).strip():
        given["workspace"] = os.path.abspath(workspace)  # noqa: PTH100 - it may not exist yet
    return given


def sendable(text: str) -> str:
    """A text that can be sent, or `InputRefused`: what cannot be, no session would take."""
    checked_prompt(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputRefused(
            "the text has half of a character in it",
            hint="a lone surrogate cannot be stored: decode the text properly first",
        ) from None
    return text


def named(scope: Scope) -> dict[str, str]:
    """What an interrupt names."""
    if isinstance(scope, TurnScope):
        return {"scope": "turn", "turn_id": scope.id}
    if isinstance(scope, ToolCall):
        return {"scope": "tool_call", "call_id": scope.id}
    return {"scope": scope}
