"""What a child has from its parent, where nobody has said otherwise."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

import attrs

from supervisor.core.errors import SpawnRefused
from supervisor.core.session import Terms

# What an agent may choose for its child by itself; all else is a person's to give.
_FOR_AGENTS: Final = frozenset(
    {"turn_deadline_seconds", "suspend_after_seconds", "on_stall", "answers_for_children"}
)
# From the policy that does least about a stall to the one that does most.
_POLICIES: Final = ("notify", "interrupt", "restart", "stop")


def terms_of_child(parents: Terms, asked: Terms, chosen: AbstractSet[str]) -> Terms:
    """The parent's terms, but for what was chosen.

    That its parent may answer for its children does not mean that it may.
    """
    changes: dict[str, Any] = {name: getattr(asked, name) for name in chosen}
    changes.setdefault("answers_for_children", False)
    return attrs.evolve(parents, **changes)


def refuse_if_wider(parents: Terms, asked: Terms, chosen: AbstractSet[str]) -> None:
    """Raise `SpawnRefused` if an agent would give its child more than it has itself."""
    others = sorted(chosen - _FOR_AGENTS)
    wider = [name for name in others if getattr(asked, name) != getattr(parents, name)]
    if _POLICIES.index(asked.on_stall) < _POLICIES.index(parents.on_stall):
        wider.append("on_stall")
    if earlier(parents.turn_deadline_seconds, asked.turn_deadline_seconds) != (
        asked.turn_deadline_seconds
    ):
        wider.append("turn_deadline_seconds")
    if wider:
        raise SpawnRefused(
            f"an agent may not choose {', '.join(wider)} for its child as it likes",
            hint="leave it out: a child has what its parent has; a shorter deadline and a stricter"
            " policy for stalls may be given",
            limit="permissions",
            used=None,
            allowed=None,
        )


def earlier(one: float | None, other: float | None) -> float | None:
    """The lower of two bounds, of which None is none."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
