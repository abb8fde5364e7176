"""The agents of a supervisor as users see them, and the error for a name that none of them has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from .errors import AgentUnknown, short_repr

AgentOrigin: TypeAlias = Literal["built-in", "configured", "preset"]

# Names that are compared; a longer text is no slip of the finger.
_MAX_COMPARED: Final = 100


@attrs.frozen(kw_only=True)
class ListedCapabilities:
    """Capabilities that an agent reported when it last started, since the supervisor is open."""

    steering: str  # native, boundary or none
    cancels_calls: bool
    loads_sessions: bool


@attrs.frozen(kw_only=True)
class ListedAgent:
    """An agent, and what is missing before it can be started.

    `kind` is `python`, `acp` or `command`. `version` is what the agent reported when it last
    started, else that of its installed package; None if neither is known. `missing` says what to
    do if `installed` is false. `detail` is its command or function, `workspace` the default of its
    sessions.
    """

    name: str
    kind: str
    source: AgentOrigin
    installed: bool = True
    missing: str | None = None
    version: str | None = None
    capabilities: ListedCapabilities | None = None
    detail: str | None = None
    workspace: str | None = None


def agent_unknown(
    name: object, known: Collection[str], install_hints: Mapping[str, str]
) -> AgentUnknown:
    """Return the error for an agent name that is not registered.

    `install_hints` says how to install each agent that is known, but not installed.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    if isinstance(name, str) and name in install_hints:
        return AgentUnknown(
            f"agent {name} is not installed", hint=f"install it: {install_hints[name]}"
        )
    hint = f"use one of {', '.join(sorted(known))}"
    if install_hints:
        hint += "; `understudy agents` lists presets too"
    if isinstance(name, str):
        close = get_close_matches(name[:_MAX_COMPARED], [*known, *install_hints], n=1)
        hint = f"did you mean {close[0]}? {hint}" if close else hint
    return AgentUnknown(f"no agent is called {short_repr(name)}", hint=hint)
