"""Budgets and expiries: stop sessions whose budget is exhausted or that have expired."""

from __future__ import annotations

import math

import trio

from supervisor.core.endings import Cause
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.state import Usage
from supervisor.core.tree.node import ExhaustedBudget, TreeNode
from supervisor.core.tree.tree import SessionTree

from .clock import Clock
from .services import StopSession
from .timers import Timer, Timers


class Budgets:
    """Enforces the budgets of all sessions in the tree."""

    def __init__(self, timers: Timers, tree: SessionTree, *, stop: StopSession) -> None:
        self._timers = timers
        self._tree = tree
        self._stop = stop
        # Timers of sessions with a budget of wall seconds, while a turn uses it.
        self._wall_timers: dict[SessionId, Timer] = {}

    def forget(self, session_id: SessionId) -> None:
        """Drop the timer of a session's budget of wall seconds."""
        timer = self._wall_timers.pop(session_id, None)
        if timer is not None:
            self._timers.drop(timer)

    def record_usage(self, session_id: SessionId, turn: TurnId, usage: Usage) -> None:
        """Count usage that an agent reports, and stop turns if a budget is exhausted by it."""
        member = self._tree.find(session_id)
        if member is not None:
            self._tree.report_usage(session_id, turn, usage)
            self.enforce(member)

    def exhausted_budget(self, session_id: SessionId) -> ExhaustedBudget | None:
        """Return an exhausted budget that the session's running turn draws on, or None."""
        member = self._tree.find(session_id)
        if member is None:
            return None
        now = trio.current_time()
        return next(
            (cut for one in member.path() if (cut := one.exhausted_while_running(now))), None
        )

    def enforce(self, member: TreeNode) -> None:
        """Stop the turns that draw on an exhausted budget of the node or of an ancestor."""
        now = trio.current_time()
        for one in member.path():
            if one.limits is None or not one.limits.has_budget:
                continue
            exhausted_budget = one.exhausted_while_running(now)
            if exhausted_budget is None or not one.running_turns:
                one.is_budget_enforced = False
            elif not one.is_budget_enforced:
                one.is_budget_enforced = True
                self._stop_turns(one, exhausted_budget.cause, str(exhausted_budget))
            self._enforce_wall_seconds(one, now)

    def _enforce_wall_seconds(self, member: TreeNode, now: float) -> None:
        limits = member.limits
        if limits is None or limits.wall_seconds is None:
            return
        if not member.running_turns:
            self.forget(member.id)
            return
        timer = self._wall_timers.get(member.id)
        if timer is None:
            timer = self._wall_timers[member.id] = Timer(member.id, self._wall_seconds_elapsed)
        left = limits.wall_seconds - member.used("wall_seconds", now)
        self._timers.set(timer, math.inf if left <= 0 else left / member.running_turns)

    def _wall_seconds_elapsed(self, session_id: str) -> None:
        member = self._tree.find(SessionId(session_id))
        if member is not None:
            self.enforce(member)

    def _stop_turns(self, spender: TreeNode, cause: Cause, detail: str) -> None:
        """Stop every session whose running turn draws on the budget, each once."""
        for member in (spender, *spender.iter_descendants()):
            run = self._tree.turn_slots.get(member.id)
            if run is not None and run.turn is not None and not run.is_budget_enforced:
                run.is_budget_enforced = True
                self._stop(member.id, cause, detail)


class Expiries:
    """Timers that stop each session at its expires_at."""

    __slots__ = ("_clock", "_pending", "_stop", "_timers")

    def __init__(self, timers: Timers, clock: Clock, *, stop: StopSession) -> None:
        self._timers = timers
        self._clock = clock
        self._stop = stop
        self._pending: dict[SessionId, Timer] = {}

    def update(self, member: TreeNode) -> None:
        """Set the timer of a live session that expires; cancel the timer of a stopped session."""
        if member.expires_at is None:
            return
        if member.state == "over":
            self.cancel(member.id)
        elif member.id not in self._pending:
            timer = self._pending[member.id] = Timer(member.id, self._expire)
            after_seconds = max(0.0, member.expires_at - self._clock.steady())
            self._timers.set(timer, after_seconds)

    def cancel(self, session_id: SessionId) -> None:
        """Drop the timer of a stopped or deleted session."""
        timer = self._pending.pop(session_id, None)
        if timer is not None:
            self._timers.drop(timer)

    def _expire(self, session_id: str) -> None:
        self._pending.pop(SessionId(session_id), None)
        self._stop(SessionId(session_id), "ttl_expired", None)
