"""A node of the tree: position, children, slots and spending of one session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.endings import Cause
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import Lifetime, Limits, OnEnd
from supervisor.core.permissions import Permissions
from supervisor.core.state import NO_USAGE, Phase, SessionState, Spending

# The state of a session in the tree, from no slots to most slots.
NodeState: TypeAlias = Literal["over", "suspended", "admitted", "up"]

SLOTS_NEEDED: Final = {"over": 0, "suspended": 1, "admitted": 2, "up": 2}

_BUDGETS: Final = ("turns", "tokens", "cost", "wall_seconds")
# Counted when a turn starts, so a running turn may end; the others grow while it runs.
_COUNTED_AT_START: Final = "turns"
# Sums of fractions are not exact: a budget within this tolerance of its limit is exhausted. Ten
# tenths are a whole, and a timer for the rest is due later than the instant at which it is set.
_TOLERANCE: Final = {"wall_seconds": 0.001, "cost": 1e-9}

_COST_DIGITS: Final = 9


def node_state(session: SessionState) -> NodeState:
    """Return the state of a session's node, derived from its row."""
    if session.phase is Phase.STOPPED:
        return "over"
    # Without an agent, and only waiting for other sessions to stop, it needs no slot either.
    waits = session.stopping is not None and session.stopping.agent_closed
    return "suspended" if waits or session.phase is Phase.SUSPENDED else "up"


def wants_turn(session: SessionState) -> bool:
    """Return True if the session would start a turn now, or as soon as its agent is up."""
    can = session.phase in (Phase.STARTING, Phase.IDLE) and session.zombie is None
    return can and bool(session.inputs) and not session.leaving


class TurnSlot:
    """A running turn, or the reservation for one: its id, start and reported usage."""

    __slots__ = ("is_budget_enforced", "previous", "reported_usage", "started", "turn")

    def __init__(self, turn: TurnId | None, began: float) -> None:
        self.turn = turn
        self.started = began
        # Reported by the agent, and not yet in the row.
        self.reported_usage = NO_USAGE
        # True once its session was told that a budget is exhausted.
        self.is_budget_enforced = False
        # The slot that it replaced, until the new one is committed.
        self.previous: TurnSlot | None = None

    def ran_seconds(self, now: float) -> float | None:
        """Return how long the turn has run, or None for a reservation."""
        return None if self.turn is None else now - self.started


class TreeNode:
    """A session's node in the tree."""

    __slots__ = (
        "active_children",
        "active_dependents",
        "agent",
        "children",
        "dependent_count",
        "depth",
        "descendant_count",
        "expires_at",
        "id",
        "is_budget_enforced",
        "is_end_reported",
        "is_ending",
        "is_in_stop_order",
        "is_result_reported",
        "is_stopping",
        "lifetime",
        "limits",
        "name",
        "on_end",
        "own_spent",
        "parent",
        "permissions",
        "role",
        "running_turns",
        "spawns",
        "spent",
        "started_sum",
        "state",
        "stop_order",
        "tree_interrupts",
        "workspace",
    )

    def __init__(
        self, session_id: SessionId, parent: TreeNode | None, depth: int, lifetime: Lifetime
    ) -> None:
        self.id = session_id
        self.parent = parent
        self.depth = depth
        self.agent = ""
        self.name: str | None = None
        self.role: str | None = None
        self.lifetime = lifetime
        self.on_end: OnEnd = "tell"
        self.limits: Limits | None = None
        self.permissions = Permissions()
        self.workspace: str | None = None
        self.expires_at: float | None = None
        self.state: NodeState = "over"
        # True while it is stopping; True while its end is being committed.
        self.is_stopping = False
        self.is_ending = False
        # Recorded by its parent, now or soon: its end, and the end of its spawn input.
        self.is_end_reported = False
        self.is_result_reported = False
        # The number of tree interrupts that prevent it from having more children.
        self.tree_interrupts = 0
        # Invariant: its children that have not stopped, in the order of their start.
        self.children: dict[SessionId, TreeNode] = {}
        # The children that it stops, the youngest last; and True if it is in its parent's list.
        self.stop_order: list[TreeNode] = []
        self.is_in_stop_order = False
        # Invariant: the number of `children` that are admitted or up; never above
        # `max_children`.
        self.active_children = 0
        # Invariant: the number of dependents, and of those that are admitted or up.
        self.dependent_count = 0
        self.active_dependents = 0
        # Invariant: the number of descendants that have not stopped, and of all there ever
        # were.
        self.descendant_count = 0
        self.spawns = 0
        # Invariant: its own spending, and that of it and all its descendants ever.
        self.own_spent = Spending()
        self.spent = Spending()
        # True once the sessions that use its exhausted budget were told.
        self.is_budget_enforced = False
        # The number of turns running in it or below it, and the sum of their start times.
        self.running_turns = 0
        self.started_sum = 0.0

    def path(self) -> Iterator[TreeNode]:
        """Yield the node, its parent, and so on to the root."""
        member: TreeNode | None = self
        while member is not None:
            yield member
            member = member.parent

    def iter_descendants(self) -> Iterator[TreeNode]:
        """Yield all descendants that have not stopped, parents before their children."""
        waiting = [self]
        while waiting:
            children = waiting.pop().children.values()
            yield from children
            waiting.extend(children)

    @property
    def effective_limits(self) -> Limits:
        """The limits that apply: the lowest of the session and its ancestors, without budgets.

        The limits are computed on use, because a change of an ancestor's limits applies to all its
        descendants.
        """
        given = [one.limits for one in self.path() if one.limits is not None] or [Limits()]
        return Limits(
            max_depth=min(limits.max_depth for limits in given),
            max_children=min(limits.max_children for limits in given),
            max_descendants=min(limits.max_descendants for limits in given),
            max_spawns=min(limits.max_spawns for limits in given),
        )

    @property
    def shown_limits(self) -> Limits:
        """The session's own limits if it has some, else the effective limits."""
        return self.effective_limits if self.limits is None else self.limits

    def active_child_ids(self) -> tuple[SessionId, ...]:
        """Return the stored children that are neither stopped nor suspended.

        A child that is only admitted is not stored yet, and may never be.
        """
        return tuple(one.id for one in self.children.values() if one.state == "up")

    def spent_by(self, now: float) -> Spending:
        """Return the spending of the session and its descendants by now, running turns included."""
        cost = round(self.spent.cost, _COST_DIGITS)
        return attrs.evolve(self.spent, cost=cost, wall_seconds=self.used("wall_seconds", now))

    @property
    def free_child_slots(self) -> int:
        """The number of children that may still become active; 0 while the session is stopping."""
        return (
            0
            if self.is_stopping
            else max(0, self.effective_limits.max_children - self.active_children)
        )

    def dependents(self) -> list[TreeNode]:
        """Return the children that stop with this session, in the order of their start."""
        return [one for one in self.children.values() if one.lifetime == "with_parent"]

    def has_younger_sibling(self) -> bool:
        """Return True if a sibling that was started later must stop first."""
        last = self.parent.next_to_stop() if self.parent is not None else None
        return last is not None and last is not self and self.is_in_stop_order

    def order_stops(self) -> list[TreeNode]:
        """Return the dependents, which must stop now, the youngest last."""
        self.stop_order = self.dependents()
        for one in self.stop_order:
            one.is_in_stop_order = True
        return self.stop_order

    def requeue_stop(self, child: TreeNode) -> None:
        """Put a child back into the stop order, because its end was not committed."""
        is_called = child.is_in_stop_order or (self.stop_order and child.lifetime == "with_parent")
        if is_called and child not in self.stop_order:
            child.is_in_stop_order = True
            self.stop_order.append(child)

    def next_to_stop(self) -> TreeNode | None:
        """Return the child that must stop next; drop children that have stopped."""
        while self.stop_order and (
            self.stop_order[-1].is_ending or self.stop_order[-1].state == "over"
        ):
            one = self.stop_order.pop()
            one.is_in_stop_order = one.state != "over"  # because its end may never be committed
        return self.stop_order[-1] if self.stop_order else None

    def used(self, budget: str, now: float) -> float:
        """Return how much of a budget the session and its descendants have spent by now."""
        used: float = getattr(self.spent, budget)
        if budget == "wall_seconds":
            used += self.running_turns * now - self.started_sum
        return used

    def exhausted_budgets(self, now: float) -> Iterator[ExhaustedBudget]:
        """Yield the exhausted budgets on the path to the root."""
        for one in self.path():
            if one.limits is not None:
                yield from one.own_exhausted_budgets(now)

    def own_exhausted_budgets(self, now: float) -> Iterator[ExhaustedBudget]:
        """Yield the exhausted budgets of this session, not those of ancestors."""
        for budget in _BUDGETS:
            allowed: float | None = getattr(self.limits, budget)
            if allowed is None:
                continue
            slack = _TOLERANCE.get(budget, 0.0)
            used = self.used(budget, now)
            if used + slack >= allowed:
                yield ExhaustedBudget(budget, used, allowed, self.id)

    def exhausted_while_running(self, now: float) -> ExhaustedBudget | None:
        """Return an exhausted budget of this session that also ends running turns, or None."""
        if self.limits is None:
            return None
        return next(
            (one for one in self.own_exhausted_budgets(now) if one.limit != _COUNTED_AT_START), None
        )


@attrs.frozen
class ExhaustedBudget:
    """An exhausted budget: its owner, the amount used and the amount allowed."""

    limit: str
    used: float
    allowed: float
    owner: SessionId

    @property
    def cause(self) -> Cause:
        """The stop cause of a session that draws on this budget."""
        return "turns_limit" if self.limit == "turns" else "budget"

    def __str__(self) -> str:
        return f"{self.used:g} of {self.allowed:g} {self.limit} used, in the budget of {self.owner}"
