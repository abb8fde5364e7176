"""Admission: the tree view of an event, inherited terms, and the checks of a spawn and a resume.

A check and the reservation of the slot are one synchronous step.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

import attrs

from supervisor.core.errors import BudgetSpent, SpawnRefused, SupervisorError
from supervisor.core.frozen_struct import FrozenStruct
from supervisor.core.ids import SessionId
from supervisor.core.limits import Lifetime, Limits, OnEnd, Terms
from supervisor.core.permissions import Permissions, intersect_permissions, narrow_to_parent
from supervisor.core.state import SessionState
from supervisor.core.workspace_root import WorkspaceRoot, is_inside

from .node import ExhaustedBudget, TreeNode
from .tree import SessionTree


class TreeView(FrozenStruct, kw_only=True):
    """Tree-wide facts that rules depend on, sampled when the event is decided."""

    # with_parent children that have not stopped: admitted, starting, active or suspended.
    dependents: int = 0
    # True if any child is admitted or active, and not suspended.
    has_active_children: bool = False
    # True if all slots are taken: for running turns, for children of its parent.
    turn_slots_full: bool = False
    child_slots_full: bool = False
    # True while the tree that it belongs to is being interrupted.
    tree_interrupted: bool = False
    # Its descendants by level, the deepest first, if its tree is to be interrupted.
    levels: tuple[tuple[SessionId, ...], ...] = ()
    # The supervisor shuts down: nothing starts, waiting inputs are kept.
    shutting_down: bool = False
    # True if a sibling that was started later must stop first.
    has_younger_sibling: bool = False
    # True if it is told to stop with a parent that is not stopping, or no longer is.
    is_parent_live: bool = False
    exhausted_budget: ExhaustedBudget | None = None
    # Why a stopped session may not be resumed.
    refusal: SupervisorError | None = None
    # How long the open turn has run, if that was measured.
    ran_seconds: float | None = None


EMPTY_TREE_VIEW: Final = TreeView()

# Terms that an agent may lower for its child, never raise; None means unlimited.
_MAY_BE_LOWERED: Final = frozenset(
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
# Terms that it may choose; passing on its right to answer is checked elsewhere.
_FREELY_CHOSEN: Final = frozenset({"suspend_after_seconds", "answers_for_children"})
# From the policy that does least about a stall to the one that does most.
_STALL_POLICIES: Final = ("notify", "interrupt", "restart", "stop")


def inherited_terms(parents: Terms, asked: Terms, chosen: AbstractSet[str]) -> Terms:
    """Return the parent's terms, replaced by those that the spawn chose explicitly.

    `answers_for_children` is not inherited.
    """
    changes: dict[str, Any] = {name: getattr(asked, name) for name in chosen}
    changes.setdefault("answers_for_children", False)
    return attrs.evolve(parents, **changes)


def refuse_if_wider(parents: Terms, asked: Terms, chosen: AbstractSet[str]) -> None:
    """Raise `SpawnRefused` if an agent would grant its child more than the agent has itself."""
    wider = [name for name in sorted(chosen - _FREELY_CHOSEN) if _is_wider(name, parents, asked)]
    if wider:
        raise SpawnRefused(
            f"an agent may not raise {', '.join(wider)} for its child",
            hint="leave it out, or lower it: a child has at most what its parent has",
            limit="permissions",
        )


def _is_wider(name: str, parents: Terms, asked: Terms) -> bool:
    had, requested = getattr(parents, name), getattr(asked, name)
    if name in _MAY_BE_LOWERED:
        return bool(lower_bound(had, requested) != requested)
    if name == "on_stall":
        return _STALL_POLICIES.index(requested) < _STALL_POLICIES.index(had)
    if name == "restart" and requested.policy == "never":
        return False
    return bool(had != requested)


def lower_bound(one: float | None, other: float | None) -> float | None:
    """Return the lower of two bounds; None means unbounded."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


@attrs.frozen
class Caps:
    """Limits of the whole process."""

    max_sessions: int = 10_000
    max_running_turns: int = 1_000
    max_agent_processes: int = 64


@attrs.frozen(kw_only=True)
class AdmissionRequest:
    """The arguments of a spawn that the parent's limits and rights apply to."""

    agent: str
    name: str | None = None
    role: str | None = None
    lifetime: Lifetime = "with_parent"
    on_end: OnEnd = "tell"
    limits: Limits | None = None
    permissions: Permissions = Permissions()
    # The restrictions of its agent, whatever its parent has.
    agent_permissions: Permissions = Permissions()
    workspace: str | None = None
    # The folders of the child's own workspace and of its parent's, links resolved.
    workspace_root: WorkspaceRoot | None = None
    parent_root: WorkspaceRoot | None = None
    expires_at: float | None = None


def refuse_above_caps(ledger: SessionTree, caps: Caps, agent: str) -> None:
    """Raise `SpawnRefused` if the process has reached its cap of sessions or agent processes."""
    who = "this supervisor has"
    _require("max_sessions", len(ledger.live), caps.max_sessions, who, "sessions")
    if agent in ledger.process_agents:
        allowed, used = caps.max_agent_processes, len(ledger.processes)
        _require("max_agent_processes", used, allowed, who, "agent processes")


def admit(
    ledger: SessionTree,
    caps: Caps,
    parent: TreeNode,
    child_id: SessionId,
    wish: AdmissionRequest,
    *,
    steady_at: float,
    now: float,
) -> TreeNode:
    """Return the child's node with the granted limits; raise `SpawnRefused` if it may not start."""
    _refuse_unless_live(parent)
    _refuse_if_tree_interrupted(parent)
    if lacks_child_slot(parent) and parent.parent is not None:
        _refuse_above_child_limits(parent.parent)  # it would have to wake up for it, and cannot
    _refuse_above_child_limits(parent)
    for above in parent.path():
        if above.limits is not None:
            _refuse_above_descendant_limits(above)
    _refuse_if_spent(parent, now)
    permissions = intersect_permissions(
        narrow_to_parent(parent.permissions, wish.permissions), wish.agent_permissions
    )
    workspace, workspace_root = _workspace_within(parent, wish)
    _refuse_if_expired(wish.expires_at, steady_at)
    refuse_above_caps(ledger, caps, wish.agent)
    _require(
        "max_running_turns",
        len(ledger.turn_slots),
        caps.max_running_turns,
        "this supervisor runs",
        "turns",
    )
    child = ledger.admit(child_id, parent, wish.lifetime, agent=wish.agent)
    child.agent, child.name, child.role = wish.agent, wish.name, wish.role
    child.on_end, child.expires_at = wish.on_end, wish.expires_at
    child.permissions, child.workspace = permissions, workspace
    if workspace_root is not None:
        ledger.pin_workspace(child_id, workspace_root)
    child.limits = (
        None if wish.limits is None else _narrow_limits(wish.limits, parent.effective_limits)
    )
    return child


def resume_refusal(
    ledger: SessionTree, caps: Caps, session: SessionState, *, steady_at: float, now: float
) -> SpawnRefused | None:
    """Return why a stopped session may not be resumed, or None.

    It needs the slots of a new child.
    """
    try:
        refuse_above_caps(ledger, caps, session.agent_name)
        if session.lineage.expires_at is not None and session.lineage.expires_at <= steady_at:
            raise _refusal("the session has expired", "spawn another, or fork it", "expiry")
        member = ledger.find(session.id)
        if member is not None:
            if session.lineage.parent is not None and member.lifetime == "with_parent":
                _refuse_unless_live(member.parent)
            if member.parent is not None:
                _refuse_if_tree_interrupted(member.parent)
                _refuse_above_child_limits(member.parent)
                for above in member.parent.path():
                    if above.limits is not None:
                        _refuse_above_descendant_limits(above, spawns=False)
            _refuse_if_spent(member, now)
    except SpawnRefused as refusal:
        return refusal
    return None


def lacks_child_slot(member: TreeNode) -> bool:
    """Return True if a suspended session must wait for a child slot of its parent."""
    parent = member.parent
    return parent is not None and member.state == "suspended" and not parent.free_child_slots


def _refuse_unless_live(parent: TreeNode | None) -> None:
    if parent is None or parent.state == "over" or parent.is_stopping or parent.is_ending:
        raise _refusal(
            "its parent is stopped or stopping",
            "resume the parent first, or spawn from another session",
            "parent",
        )


def _refuse_if_tree_interrupted(parent: TreeNode) -> None:
    node = next((one for one in parent.path() if one.tree_interrupts), None)
    if node is not None:
        raise _refusal(
            f"the tree of session {node.id} is being interrupted",
            "wait until that interrupt has answered",
            "parent",
        )


def _refuse_above_child_limits(parent: TreeNode) -> None:
    rules = parent.effective_limits
    _require(
        "max_depth",
        parent.depth,
        rules.max_depth,
        f"session {parent.id} is at",
        "levels",
        parent=parent,
    )
    _require(
        "max_children",
        parent.active_children,
        rules.max_children,
        f"session {parent.id} has",
        "live children",
        parent=parent,
    )


def _refuse_above_descendant_limits(above: TreeNode, *, spawns: bool = True) -> None:
    limits = above.limits
    assert limits is not None
    who = f"session {above.id} has"
    _require(
        "max_descendants", above.descendant_count, limits.max_descendants, who, "live descendants"
    )
    if spawns:
        _require("max_spawns", above.spawns, limits.max_spawns, f"{who} had", "spawns")


def _refuse_if_spent(member: TreeNode, now: float) -> None:
    exhausted_budget: ExhaustedBudget | None = next(member.exhausted_budgets(now), None)
    if exhausted_budget is not None:
        raise BudgetSpent(
            f"a budget is exhausted: {exhausted_budget}",
            hint=f"raise limits.{exhausted_budget.limit} of session {exhausted_budget.owner}",
            limit=exhausted_budget.limit,
            used=exhausted_budget.used,
            allowed=exhausted_budget.allowed,
        )


def _refuse_if_expired(expires_at: float | None, steady_at: float) -> None:
    if expires_at is not None and expires_at <= steady_at:
        raise _refusal("the child would expire at once", "give ttl_seconds above 0", "expiry")


def _workspace_within(
    parent: TreeNode, wish: AdmissionRequest
) -> tuple[str | None, WorkspaceRoot | None]:
    """Return the child's workspace with its folder; raise `SpawnRefused` if it is outside."""
    if wish.workspace is None:
        return parent.workspace, wish.parent_root
    if parent.workspace is not None:
        # Only the paths without links count.
        inner = wish.workspace if wish.workspace_root is None else wish.workspace_root.path
        outer = parent.workspace if wish.parent_root is None else wish.parent_root.path
        if not is_inside(inner, outer):
            leads = "" if inner == wish.workspace else f", which leads to {inner},"
            raise _refusal(
                f"{wish.workspace}{leads} is not inside its parent's workspace {parent.workspace}",
                "choose a folder inside it, or leave workspace out",
                "workspace",
            )
    return wish.workspace, wish.workspace_root


def _narrow_limits(given: Limits, above: Limits) -> Limits:
    """Return limits no wider than the parent's, so that `Info` shows the limits that apply."""
    return attrs.evolve(
        given,
        max_depth=min(given.max_depth, above.max_depth),
        max_children=min(given.max_children, above.max_children),
        max_descendants=min(given.max_descendants, above.max_descendants),
        max_spawns=min(given.max_spawns, above.max_spawns),
    )


def _require(
    limit: str, used: int, allowed: int, who: str, what: str, *, parent: TreeNode | None = None
) -> None:
    if used >= allowed:
        owner = None if parent is None else _limiting_ancestor(parent, limit, allowed)
        raise _refusal(
            f"{who} {used} of {allowed} {what}",
            _HINTS[limit] + ("" if owner is None else f" of session {owner.id}"),
            limit,
            used,
            allowed,
        )


def _limiting_ancestor(parent: TreeNode, limit: str, allowed: int) -> TreeNode | None:
    """Return the ancestor that must be changed before the parent's own limit counts, if any."""
    above = (one for one in parent.path() if one is not parent and one.limits is not None)
    found = [one for one in above if getattr(one.limits, limit) == allowed]
    return min(found, key=lambda one: one.depth, default=None)


_HINTS: Final = {
    "max_depth": "spawn it from a session higher up, or raise limits.max_depth",
    "max_children": "wait for a child to end, stop one, or raise limits.max_children",
    "max_descendants": "wait for one to end, stop one, or raise limits.max_descendants",
    "max_spawns": "raise limits.max_spawns",
    "max_sessions": "stop some, or raise max_sessions",
    "max_agent_processes": "stop one, wait until one is idle, or raise max_agent_processes",
    "max_running_turns": "wait for a turn to end, or raise max_running_turns",
}


def _refusal(
    problem: str,
    hint: str,
    limit: str,
    used: float | None = None,
    allowed: float | None = None,
) -> SpawnRefused:
    return SpawnRefused(problem, hint=hint, limit=limit, used=used, allowed=allowed)
