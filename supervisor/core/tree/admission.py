"""Who may begin, and who may come back: one check, and the place is taken in the same step."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

import attrs

from supervisor.core.errors import BudgetSpent, SpawnRefused
from supervisor.core.ids import SessionId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions, narrowed, within
from supervisor.core.session import Lifetime, OnEnd, Session

from .ledger import Ledger
from .member import Member
from .situation import Shortage


@attrs.frozen
class Caps:
    """What one process has room for."""

    max_sessions: int = 10_000
    max_running_turns: int = 1_000
    max_agent_processes: int = 64


@attrs.frozen(kw_only=True)
class Wish:
    """What a child is asked to be, as far as its parent may have to say no to it."""

    agent: str
    name: str | None = None
    role: str | None = None
    lifetime: Lifetime = "with_parent"
    on_end: OnEnd = "tell"
    limits: Limits | None = None
    permissions: Permissions = Permissions()
    # What its agent is confined to, whatever its parent has.
    most: Permissions = Permissions()
    workspace: str | None = None
    expires_at: float | None = None


def refuse_if_too_many(ledger: Ledger, caps: Caps, agent: str) -> None:
    """Raise if the process has as many sessions as it may, or agents that are processes."""
    who = "this supervisor has"
    _require("max_sessions", len(ledger.live), caps.max_sessions, who, "sessions")
    if agent in ledger.process_agents:
        allowed, used = caps.max_agent_processes, len(ledger.processes)
        _require("max_agent_processes", used, allowed, who, "agent processes")


def admit(
    ledger: Ledger,
    caps: Caps,
    parent: Member,
    child_id: SessionId,
    wish: Wish,
    *,
    at: float,
    now: float,
) -> Member:
    """The child's page, with all that it is granted; raises `SpawnRefused` if it may not be."""
    _refuse_unless_live(parent)
    _refuse_if_closed(parent)
    if has_no_place(parent) and parent.parent is not None:
        _refuse_if_crowded(parent.parent)  # it would have to wake up for it, and cannot
    _refuse_if_crowded(parent)
    for above in parent.path():
        if above.limits is not None:
            _refuse_if_full(above)
    _refuse_if_spent(parent, now)
    permissions = narrowed(within(parent.permissions, wish.permissions), wish.most)
    workspace = _workspace_within(parent, wish.workspace)
    _refuse_if_expired(wish.expires_at, at)
    refuse_if_too_many(ledger, caps, wish.agent)
    _require(
        "max_running_turns",
        len(ledger.turns),
        caps.max_running_turns,
        "this supervisor runs",
        "turns",
    )
    child = ledger.admit(child_id, parent, wish.lifetime, agent=wish.agent)
    child.agent, child.name, child.role = wish.agent, wish.name, wish.role
    child.on_end, child.expires_at = wish.on_end, wish.expires_at
    child.permissions, child.workspace = permissions, workspace
    child.limits = None if wish.limits is None else _narrowed(wish.limits, parent.rules)
    return child


def problem_of_return(
    ledger: Ledger, caps: Caps, session: Session, *, at: float, now: float
) -> SpawnRefused | None:
    """Why a stopped session may not come back, or None: it needs the same room as a new one."""
    try:
        refuse_if_too_many(ledger, caps, session.agent_name)
        if session.lineage.expires_at is not None and session.lineage.expires_at <= at:
            raise _refusal("its time is over", "spawn another, or fork it", "expiry")
        member = ledger.find(session.id)
        if member is not None:
            if session.lineage.parent is not None and member.lifetime == "with_parent":
                _refuse_unless_live(member.parent)
            if member.parent is not None:
                _refuse_if_closed(member.parent)
                _refuse_if_crowded(member.parent)
                for above in member.parent.path():
                    if above.limits is not None:
                        _refuse_if_full(above, spawns=False)
            _refuse_if_spent(member, now)
    except SpawnRefused as refusal:
        return refusal
    return None


def has_no_place(member: Member) -> bool:
    """Whether a suspended session must wait, because its parent has as many up as it may."""
    parent = member.parent
    return parent is not None and member.standing == "suspended" and not parent.free_places


def _refuse_unless_live(parent: Member | None) -> None:
    if parent is None or parent.standing == "over" or parent.is_stopping or parent.is_ending:
        raise _refusal(
            "its parent is stopped, or about to be",
            "resume the parent first, or spawn from another session",
            "parent",
        )


def _refuse_if_closed(parent: Member) -> None:
    closed = next((one for one in parent.path() if one.closed), None)
    if closed is not None:
        raise _refusal(
            f"the tree of session {closed.id} is being interrupted",
            "wait until that interrupt has answered",
            "parent",
        )


def _refuse_if_crowded(parent: Member) -> None:
    rules = parent.rules
    _require("max_depth", parent.depth, rules.max_depth, f"session {parent.id} is at", "levels")
    _require(
        "max_children", parent.up, rules.max_children, f"session {parent.id} has", "live children"
    )


def _refuse_if_full(above: Member, *, spawns: bool = True) -> None:
    limits = above.limits
    assert limits is not None
    who = f"session {above.id} has"
    _require("max_descendants", above.descendants, limits.max_descendants, who, "live descendants")
    if spawns:
        _require("max_spawns", above.spawns, limits.max_spawns, f"{who} had", "spawns")


def _refuse_if_spent(member: Member, now: float) -> None:
    shortage: Shortage | None = next(member.shortages(now), None)
    if shortage is not None:
        raise BudgetSpent(
            f"nothing is left to spend: {shortage}",
            hint=f"raise limits.{shortage.limit} of session {shortage.owner}",
            limit=shortage.limit,
            used=shortage.used,
            allowed=shortage.allowed,
        )


def _refuse_if_expired(expires_at: float | None, at: float) -> None:
    if expires_at is not None and expires_at <= at:
        raise _refusal("its time is over", "give ttl_seconds above 0, or none", "expiry")


def _workspace_within(parent: Member, workspace: str | None) -> str | None:
    if workspace is None or parent.workspace is None:
        return workspace or parent.workspace
    # Normalised when they were given. Links are resolved where files are touched, not here.
    if not PurePosixPath(workspace).is_relative_to(parent.workspace):
        raise _refusal(
            f"{workspace} is not inside its parent's workspace {parent.workspace}",
            "choose a folder inside it, or leave workspace out",
            "workspace",
        )
    return workspace


def _narrowed(given: Limits, above: Limits) -> Limits:
    """No wider than those of its parent, so that what it shows is what it has."""
    return attrs.evolve(
        given,
        max_depth=min(given.max_depth, above.max_depth),
        max_children=min(given.max_children, above.max_children),
        max_descendants=min(given.max_descendants, above.max_descendants),
        max_spawns=min(given.max_spawns, above.max_spawns),
    )


def _require(limit: str, used: int, allowed: int, who: str, what: str) -> None:
    if used >= allowed:
        raise _refusal(
            f"{who} {used} of {allowed} {what}",
            _HINTS[limit],
            limit,
            used,
            allowed,
        )


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
