"""The ledger: who stands below whom, what everybody has, and what was spent.

Rule 1: one place for each session, taken and given back by setting where it stands to what its row
        says. Before a commit only what takes room counts, after it everything.
Rule 2: a session that has no parent, no child and no budget is not in the ledger, only in `live`.
Rule 3: `now` is a clock for durations, `at` the time that people read; both come from outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.session import Lifetime, OnEnd, Phase, Session, Spending, Usage

from .situation import Shortage

# Where a session stands, from what takes no room to what takes most.
Standing: TypeAlias = Literal["over", "suspended", "admitted", "up"]

_ROOM: Final = {"over": 0, "suspended": 1, "admitted": 2, "up": 2}
_BUDGETS: Final = ("turns", "tokens", "cost", "wall_seconds")
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
        self.reported = Usage()
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
        if self.line and not child.is_in_line:
            child.is_in_line = True
            self.line.append(child)

    def last_in_line(self) -> Member | None:
        """The child that is to end next; those who have are forgotten."""
        while self.line and (self.line[-1].is_ending or self.line[-1].standing == "over"):
            self.line.pop().is_in_line = False
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
    return limits is not None and any(getattr(limits, budget) is not None for budget in _BUDGETS)


class Ledger:
    """All members, and what all sessions share."""

    def __init__(self) -> None:
        self._members: dict[SessionId, Member] = {}
        # Invariant: every session that is not stopped, from its admission on.
        self.live: set[SessionId] = set()
        # Invariant: every turn that runs, and every place for one that is promised.
        self.turns: dict[SessionId, Run] = {}

    def find(self, session_id: SessionId) -> Member | None:
        """Its page, if it has one."""
        return self._members.get(session_id)

    # Pages --------------------------------------------------------------------------------

    def enter(self, session: Session) -> Member:
        """The session's page, made from its row if there is none; its parent's is there before.

        A parent that was deleted is missing; then the session is counted by its root, if there is
        one left.
        """
        member = self._members.get(session.id)
        if member is None:
            lineage = session.lineage
            parent = self._page_above(session)
            member = self._add(session.id, parent, lineage.depth, lineage.lifetime)
            member.on_end = lineage.on_end
            member.role = lineage.role
            member.expires_at = lineage.expires_at
            member.agent = session.agent_name
            member.name = session.name
            member.permissions = session.permissions
            member.workspace = session.workspace
            member.limits = session.limits
            member.is_stopping = session.phase is Phase.STOPPING
            member.told_over = session.phase is Phase.STOPPED
            member.told_done = session.family.outcome is not None
            self._count_spawns(member, 1 + session.family.deleted_spawns)
            member.spawns += session.family.deleted_spawns
            self._spend(member, session.family.deleted)
            self._stand(member, standing_of(session))
            self._set_own(member, session.spending)
            run = self.turns.get(session.id)
            if run is not None and run.turn is not None:
                self._count_run(member, run, 1)
        return member

    def _page_above(self, session: Session) -> Member | None:
        """Its parent's page; if that one was deleted, its root's, where it is still counted."""
        lineage = session.lineage
        if lineage.parent is None:
            return None
        parent = self._members.get(lineage.parent)
        if parent is None and lineage.root is not None:
            parent = self._members.get(lineage.root)
        return parent

    def _add(
        self, session_id: SessionId, parent: Member | None, depth: int, lifetime: Lifetime
    ) -> Member:
        member = self._members[session_id] = Member(session_id, parent, depth, lifetime)
        return member

    def admit(self, session_id: SessionId, parent: Member, lifetime: Lifetime) -> Member:
        """A page for a child that is to begin: from now on it takes its place."""
        member = self._add(session_id, parent, parent.depth + 1, lifetime)
        self.live.add(session_id)
        self._count_spawns(member, 1)
        self._stand(member, "admitted")
        self.turns[session_id] = Run(None, 0.0)
        return member

    def withdraw(self, session_id: SessionId) -> None:
        """The child that was admitted never began."""
        member = self._members.pop(session_id, None)
        self.live.discard(session_id)
        self.turns.pop(session_id, None)
        if member is not None:
            self._stand(member, "over")
            self._count_spawns(member, -1)

    def delete(self, session_id: SessionId) -> None:
        """Nothing is left of a session that is over; what it has spent stays spent.

        Whoever is still below it keeps its page, which nobody else finds any more: they are
        counted further up as before.
        """
        self.live.discard(session_id)
        self._release(session_id)
        self._members.pop(session_id, None)

    # What rows say ------------------------------------------------------------------------

    def foresee(self, session: Session, now: float) -> None:
        """A row that is about to be written: what takes room takes it now."""
        if session.phase is not Phase.STOPPED:
            self.live.add(session.id)
        if session.turn is not None:
            self._run(session.id, session.turn.id, now)
        member = self._members.get(session.id)
        if member is not None:
            standing = standing_of(session)
            if _ROOM[standing] > _ROOM[member.standing]:
                self._stand(member, standing)
            self._set_own(member, self._own(session))
            member.is_stopping = member.is_stopping or session.phase is Phase.STOPPING
            member.is_ending = standing == "over"

    def settle(self, session: Session, now: float) -> None:
        """A row that is written: all it says is so."""
        member = self._members.get(session.id)
        self._restore(session)
        if session.phase is Phase.STOPPED:
            self.live.discard(session.id)
        else:
            self.live.add(session.id)
        if session.turn is not None:
            self._run(session.id, session.turn.id, now)
        elif not (self._is_promised(session.id) and wants_a_turn(session)):
            self._release(session.id)
        if member is None:
            return
        self._stand(member, standing_of(session))
        self._set_own(member, self._own(session))
        member.limits = session.limits
        member.is_stopping = session.phase is Phase.STOPPING
        if member.is_ending and member.standing != "over" and member.parent is not None:
            member.parent.back_in_line(member)
        member.is_ending = False

    def report(self, session_id: SessionId, turn: TurnId, usage: Usage) -> None:
        """An agent says what it has used; that counts before it is written."""
        run = self.turns.get(session_id)
        member = self._members.get(session_id)
        if run is not None and member is not None and run.turn == turn:
            run.reported += usage
            tokens = usage.input_tokens + usage.output_tokens
            self._set_own(member, member.own + Spending(0, tokens, usage.cost))

    def promise(self, session_id: SessionId) -> None:
        """Keep a place for the session's next turn."""
        self.turns.setdefault(session_id, Run(None, 0.0))

    def ran_seconds(self, session_id: SessionId, now: float) -> float | None:
        """For how long its turn has run."""
        run = self.turns.get(session_id)
        return None if run is None or run.turn is None else now - run.began

    # Inside -------------------------------------------------------------------------------

    def _is_promised(self, session_id: SessionId) -> bool:
        run = self.turns.get(session_id)
        return run is not None and run.turn is None

    def _own(self, session: Session) -> Spending:
        """What the row says, and what its agent has said since."""
        spending = session.spending
        run = self.turns.get(session.id)
        if run is None or session.turn is None or run.turn != session.turn.id:
            return spending
        said, written = run.reported, session.turn.usage
        tokens = said.input_tokens + said.output_tokens
        tokens -= written.input_tokens + written.output_tokens
        return spending + Spending(0, max(0, tokens), max(0.0, said.cost - written.cost))

    def _stand(self, member: Member, standing: Standing) -> None:
        before, member.standing = member.standing, standing
        parent = member.parent
        if parent is None:
            return
        was_up, is_up = _ROOM[before] > 1, _ROOM[standing] > 1
        parent.up += is_up - was_up
        was_there, is_there = before != "over", standing != "over"
        if member.lifetime == "with_parent":
            parent.bound += is_there - was_there
            parent.company += is_up - was_up
        if was_there != is_there:
            for one in parent.path():
                one.descendants += is_there - was_there
            if is_there:
                parent.children[member.id] = member
            else:
                del parent.children[member.id]

    @staticmethod
    def _count_spawns(member: Member, count: int) -> None:
        if member.parent is not None:
            for one in member.parent.path():
                one.spawns += count

    def _set_own(self, member: Member, own: Spending) -> None:
        before, member.own = member.own, own
        if before != own:
            change = Spending(
                own.turns - before.turns,
                own.tokens - before.tokens,
                own.cost - before.cost,
                own.wall_seconds - before.wall_seconds,
            )
            self._spend(member, change)

    @staticmethod
    def _spend(member: Member, change: Spending) -> None:
        for one in member.path():
            one.spent += change

    def _run(self, session_id: SessionId, turn: TurnId, now: float) -> None:
        run = self.turns.get(session_id)
        if run is not None and run.turn == turn:
            return
        self._release(session_id)
        self._put(session_id, Run(turn, now))
        self.turns[session_id].displaced = run

    def _put(self, session_id: SessionId, run: Run) -> None:
        self.turns[session_id] = run
        run.displaced = None
        member = self._members.get(session_id)
        if member is not None and run.turn is not None:
            self._count_run(member, run, 1)

    def _restore(self, session: Session) -> None:
        """If what was foreseen for the session is not what was written, undo it."""
        run = self.turns.get(session.id)
        if run is None:
            return
        before, run.displaced = run.displaced, None
        written = session.turn.id if session.turn is not None else None
        if before is not None and run.turn != written:
            self._release(session.id)
            self._put(session.id, before)

    def _release(self, session_id: SessionId) -> None:
        run = self.turns.pop(session_id, None)
        member = self._members.get(session_id)
        if run is not None and run.turn is not None and member is not None:
            self._count_run(member, run, -1)

    @staticmethod
    def _count_run(member: Member, run: Run, count: int) -> None:
        for one in member.path():
            one.running += count
            one.began_sum += count * run.began


@attrs.frozen
class Caps:
    """What one process has room for."""

    max_sessions: int = 10_000
    max_running_turns: int = 1_000
