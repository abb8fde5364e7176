"""Filter of a list of sessions; `filters.matches` defines its meaning."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.info import Badge
from supervisor.core.state import Phase


@attrs.frozen(kw_only=True)
class Filter:
    """Filter of a list: every field that is not None must match.

    `text` matches a part of the name, title or key, ignoring case. `attention` is whether something
    that a person should look at is kept in the row.
    """

    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    phase: Phase | None = None
    badge: Badge | None = None
    parent: str | None = None
    root: str | None = None
    tag: str | None = None
    workspace: str | None = None
    archived: bool | None = None
    text: str | None = None
    created_after: float | None = None
    created_before: float | None = None
    updated_after: float | None = None
    updated_before: float | None = None
    attention: bool | None = None


NO_FILTER: Final = Filter()

# The phases in which a badge can occur, so that an index on the phase narrows a badge filter.
_NOT_STOPPED: Final = tuple(phase for phase in Phase if phase is not Phase.STOPPED)

BADGE_PHASES: Final[dict[str, tuple[Phase, ...]]] = {
    "failed": (Phase.STOPPED,),
    "stopped": (Phase.STOPPED,),
    "waiting-for-auth": _NOT_STOPPED,
    "waiting-for-you": _NOT_STOPPED,
    "hung": _NOT_STOPPED,
    "unhealthy": _NOT_STOPPED,
    "restarting": (Phase.RESTARTING,),
    "running": (Phase.RUNNING, Phase.INTERRUPTING, Phase.STOPPING),
    "idle": (Phase.IDLE,),
    "suspended": (Phase.SUSPENDED,),
    "unknown": (Phase.STARTING, Phase.STOPPING),
}
