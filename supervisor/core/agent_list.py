"""The agents of a supervisor as users see them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

AgentOrigin: TypeAlias = Literal["built-in", "configured", "preset"]


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
