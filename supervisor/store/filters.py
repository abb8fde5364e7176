"""Which sessions a list shows: what is asked for, and whether a row fits.

Rule 1: every store gives the same for the same filter. What a store can leave to its own index it
        may, but `fits` is what it means.
"""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.info import Badge, badge_of
from supervisor.core.session import Phase, Session


@attrs.frozen(kw_only=True)
class Filter:
    """All that is given has to fit; None is anything.

    `text` is part of its name, title or key, whatever the case of the letters.
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


EVERYTHING: Final = Filter()

# Between the names of a session; a line break, for it is in few of them and few look for one.
_BETWEEN: Final = "\n"
# In which phases a session may be that shows the badge: what an index can know of badges.
_NOT_OVER: Final = tuple(phase for phase in Phase if phase is not Phase.STOPPED)
PHASES_OF_BADGES: Final[dict[str, tuple[Phase, ...]]] = {
    "failed": (Phase.STOPPED,),
    "stopped": (Phase.STOPPED,),
    "waiting-for-auth": _NOT_OVER,
    "waiting-for-you": _NOT_OVER,
    "hung": _NOT_OVER,
    "unhealthy": _NOT_OVER,
    "restarting": (Phase.RESTARTING,),
    "running": (Phase.RUNNING, Phase.INTERRUPTING, Phase.STOPPING),
    "idle": (Phase.IDLE,),
    "suspended": (Phase.SUSPENDED,),
    "unknown": (Phase.STARTING, Phase.STOPPING),
}


def fits(row: Session, wanted: Filter) -> bool:
    """Whether a list that asks for this shows the session."""
    if wanted is EVERYTHING:
        return True
    key = row.key
    facts = (
        (wanted.agent, row.agent_name),
        (wanted.channel, key.channel if key is not None else None),
        (wanted.peer, key.peer if key is not None else None),
        (wanted.phase, row.phase),
        (wanted.parent, row.lineage.parent),
        (wanted.root, row.lineage.root or row.id),
        (wanted.workspace, row.workspace),
        (wanted.archived, row.archived),
    )
    return (
        all(asked is None or asked == there for asked, there in facts)
        and (wanted.tag is None or wanted.tag in row.tags)
        and (wanted.badge is None or badge_of(row) == wanted.badge)
        and _has_text(row, wanted.text)
        and _is_between(row.created_at, wanted.created_after, wanted.created_before)
        and _is_between(row.updated_at, wanted.updated_after, wanted.updated_before)
    )


def _has_text(row: Session, text: str | None) -> bool:
    return text is None or any(text.casefold() in name for name in _names_of(row))


def label_of(row: Session) -> str:
    """All that a session is called, in letters without case."""
    return _BETWEEN.join(_names_of(row))


def _names_of(row: Session) -> list[str]:
    names = (row.name, row.title, None if row.key is None else str(row.key))
    return [name.casefold() for name in names if name is not None]


def _is_between(at: float, after: float | None, before: float | None) -> bool:
    return (after is None or at > after) and (before is None or at < before)
