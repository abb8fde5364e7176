"""What a child has from its parent, where nobody has said otherwise."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

import attrs

from supervisor.core.errors import SpawnRefused
from supervisor.core.session import Terms

# What an agent may lower for its child, never raise; None is no limit.
_LOWER: Final = frozenset(
    {
        "queue_cap",
        "max_text_bytes",
        "max_turn_bytes",
        "permission_timeout_seconds",
        "quiet_after_seconds",
        "stalled_after_seconds",
        "tool_stalled_after_seconds",
        "turn_deadline_seconds",
    }
)
# What it may choose as it likes; whether it may hand on its right to answer is checked apart.
_FREE: Final = frozenset({"suspend_after_seconds", "answers_for_children"})
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
    wider = [name for name in sorted(chosen - _FREE) if _is_wider(name, parents, asked)]
    if wider:
        raise SpawnRefused(
            f"an agent may not choose {', '.join(wider)} for its child as it likes",
            hint="leave it out, or give less: a child has what its parent has",
            limit="permissions",
        )


def _is_wider(name: str, parents: Terms, asked: Terms) -> bool:
    had, wanted = getattr(parents, name), getattr(asked, name)
    if name in _LOWER:
        return bool(earlier(had, wanted) != wanted)
    if name == "on_stall":
        return _POLICIES.index(wanted) < _POLICIES.index(had)
    if name == "restart" and wanted.policy == "never":
        return False
    return bool(had != wanted)


def earlier(one: float | None, other: float | None) -> float | None:
    """The lower of two bounds, of which None is none."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
