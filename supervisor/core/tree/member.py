"""A page of the ledger: where a session stands, who is below it, what all of them have spent."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.session import NO_USAGE, Lifetime, OnEnd, Phase, Session, Spending

from .situation import Shortage

# Where a session stands, from what takes no room to what takes most.
Standing: TypeAlias = Literal["over", "suspended", "admitted", "up"]

ROOM: Final = {"over": 0, "suspended": 1, "admitted": 2, "up": 2}
_BUDGETS: Final = ("turns", "tokens", "cost", "wall_seconds")
# All at once: this is asked four times a turn.
_budgets_of: Final = attrgetter(*_BUDGETS)
_NO_BUDGETS: Final = (None,) * len(_BUDGETS)
# Spent as a turn begins, so what runs may end; all else is spent while it runs.
_BY_BEGINNING: Final = "turns"
# Sums of fractions are not exact: what is within so much of being spent is spent. Ten tenths are
# a whole, and a timer for what is left is due later than at the instant at which it is set.
_SLACK: Final = {"wall_seconds": 0.001, "cost": 1e-9}
_COST_DIGITS: Final = 9


def standing_of(session: Session) -> Standing:
    """Where a session stands by its row."""
    if session.phase is Phase.STOPPED:
        return "over"
    # Without an agent, and only waiting for others to end first, it needs no place either.
    waits = session.stopping is not None and session.stopping.agent_closed
    return "suspended" if waits or session.phase is Phase.SUSPENDED else "up"


def wants_a_turn(session: Session) -> bool:
    """Whether it would begin one if it might, or will when its agent is up."""
    can = session.phase in (Phase.STARTING, Phase.IDLE) and session.zombie is None
    return can and bool(session.inputs) and not session.leaving


class Run:
    """A turn under way, or the place for one: whose it is, since when, what it says it has used."""

    __slots__ = ("began", "displaced", "is_cut_short", "reported", "turn")

    def __init__(self, turn: TurnId | None, began: float) -> None:
        self.turn = turn
        self.began = began
        # Said by the agent, and on its way into the row.
        self.reported = NO_USAGE
        # Whether its session was told that a budget is spent.
        self.is_cut_short = False
        # What was there before it, until it is written that it is there.
        self.displaced: Run | None = None


class Member:
    """A session's page in the ledger."""

    __slots__ = (
        "agent",
        "began_sum",
        "bound",
        "children",
        "closed",
        "company",
        "depth",
        "descendants",
        "expires_at",
        "id",
        "is_cut_short",
        "is_ending",
        "is_in_line",
        "is_stopping",
        "lifetime",
        "limits",
        "line",
        "name",
        "on_end",
        "own",
        "parent",
        "permissions",
        "role",
        "running",
        "spawns",
        "spent",
        "standing",
        "told_done",
        "told_over",
        "up",
        "workspace",
    )

    def __init__(
        self, session_id: SessionId, parent: Member | None, depth: int, lifetime: Lifetime
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
        self.standing: Standing = "over"
        # Whether it is on its way to its end, and whether that is as good as written.
        self.is_stopping = False
        self.is_ending = False
        # What its parent knows, or will: whether it is over, and whether its errand is done.
        self.told_over = False
        self.told_done = False
        # How many interrupts of a whole tree keep this one from having more children.
        self.closed = 0
        # Invariant: its children that are not over, in the order of their start.
        self.children: dict[SessionId, Member] = {}
        # Those of them that it stops, the youngest last; and whether it is itself among such.
        self.line: list[Member] = []
        self.is_in_line = False
        # Invariant: how many of `children` are admitted or up; never above `max_children`.
        self.up = 0
        # Invariant: how many of them end with it, and how many of those are admitted or up.
        self.bound = 0
        self.company = 0
        # Invariant: how many below it are not over, and how many there ever were.
        self.descendants = 0
        self.spawns = 0
        # Invariant: what it has spent itself, and what it and all that ever were below it have.
        self.own = Spending()
        self.spent = Spending()
        # Whether those who run on a budget of it that is spent were told.
        self.is_cut_short = False
        # Turns that run in it or below it, and the sum of the instants at which they began.
        self.running = 0
        self.began_sum = 0.0

    def path(self) -> Iterator[Member]:
        """Itself, its parent, and so on to the root."""
        member: Member | None = self
        while member is not None:
            yield member
            member = member.parent

    def below(self) -> Iterator[Member]:
        """All that are not over below it, parents before their children."""
        waiting = [self]
        while waiting:
            children = waiting.pop().children.values()
            yield from children
            waiting.extend(children)

    @property
    def rules(self) -> Limits:
        """The limits it goes by: the lowest of its own and of all above it, budgets left out.

        Looked up when they are needed: whoever changes limits further up changes them for all.
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
        """Its own, or those it goes by."""
        return self.rules if self.limits is None else self.limits

    def children_up(self) -> tuple[SessionId, ...]:
        """Its children that count as such: not over, and not suspended."""
        return tuple(one.id for one in self.children.values() if one.standing != "suspended")

    def spent_by(self, now: float) -> Spending:
        """What it and all below it have spent by now, running turns included."""
        cost = round(self.spent.cost, _COST_DIGITS)
        return attrs.evolve(self.spent, cost=cost, wall_seconds=self.used("wall_seconds", now))

    @property
    def free_places(self) -> int:
        """How many more children may be up; none below one that is about to end."""
        return 0 if self.is_stopping else max(0, self.rules.max_children - self.up)

    def dependents(self) -> list[Member]:
        """Children that end with it, in the order of their start."""
        return [one for one in self.children.values() if one.lifetime == "with_parent"]

    def has_younger(self) -> bool:
        """Whether one that was started later has to end before it."""
        last = self.parent.last_in_line() if self.parent is not None else None
        return last is not None and last is not self and self.is_in_line

    def stand_in_line(self) -> list[Member]:
        """Its dependents, which are to end now, the youngest first."""
        self.line = self.dependents()
        for one in self.line:
            one.is_in_line = True
        return self.line

    def back_in_line(self, child: Member) -> None:
        """It was about to end, and that was not written."""
        is_called = child.is_in_line or (self.line and child.lifetime == "with_parent")
        if is_called and child not in self.line:
            child.is_in_line = True
            self.line.append(child)

    def last_in_line(self) -> Member | None:
        """The child that is to end next; those who have are forgotten."""
        while self.line and (self.line[-1].is_ending or self.line[-1].standing == "over"):
            one = self.line.pop()
            one.is_in_line = one.standing != "over"  # for its end may never be written
        return self.line[-1] if self.line else None

    def used(self, budget: str, now: float) -> float:
        """How much of a budget it and all below it have spent by now."""
        used: float = getattr(self.spent, budget)
        if budget == "wall_seconds":
            used += self.running * now - self.began_sum
        return used

    def shortages(self, now: float) -> Iterator[Shortage]:
        """Every budget on its path of which nothing is left."""
        for one in self.path():
            if one.limits is not None:
                yield from one.own_shortages(now)

    def own_shortages(self, now: float) -> Iterator[Shortage]:
        """Every budget of its own of which nothing is left."""
        for budget in _BUDGETS:
            allowed: float | None = getattr(self.limits, budget)
            if allowed is None:
                continue
            slack = _SLACK.get(budget, 0.0)
            used = self.used(budget, now)
            if used + slack >= allowed:
                yield Shortage(budget, used, allowed, self.id)

    def cuts_short(self, now: float) -> Shortage | None:
        """A budget of its own that is spent, so that what runs on it must end."""
        if self.limits is None:
            return None
        return next((one for one in self.own_shortages(now) if one.limit != _BY_BEGINNING), None)


def has_budget(limits: Limits | None) -> bool:
    """Whether anything that may be spent is bounded."""
    return limits is not None and _budgets_of(limits) != _NO_BUDGETS
