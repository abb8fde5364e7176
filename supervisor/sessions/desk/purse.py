"""The purse: budgets over the path to the root, and what happens when one of them is spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.session import Cause, Usage
from supervisor.core.tree.ledger import Ledger
from supervisor.core.tree.member import Member, has_budget
from supervisor.core.tree.situation import Shortage
from supervisor.sessions.time.timers import Timer

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


class Purse:
    """One for the house."""

    def __init__(self, house: House, ledger: Ledger) -> None:
        self._house = house
        self._ledger = ledger
        # Of those who have a budget of seconds, while anything runs on it.
        self._walls: dict[SessionId, Timer] = {}

    def forget(self, session_id: SessionId) -> None:
        """Nothing runs on its budget of seconds, or nothing is left of it."""
        timer = self._walls.pop(session_id, None)
        if timer is not None:
            self._house.timers.drop(timer)

    def spend(self, session_id: SessionId, turn: TurnId, usage: Usage) -> None:
        """An agent has used something: it counts at once, and ends what runs if it was the last."""
        member = self._ledger.find(session_id)
        if member is not None:
            self._ledger.report(session_id, turn, usage)
            self.watch(member)

    def what_is_spent(self, session_id: SessionId) -> Shortage | None:
        """What is spent that the session's running turn draws on."""
        member = self._ledger.find(session_id)
        if member is None:
            return None
        now = trio.current_time()
        return next((cut for one in member.path() if (cut := one.cuts_short(now))), None)

    def watch(self, member: Member) -> None:
        """Something has changed in what it has spent, or in who runs: end what must end."""
        now = trio.current_time()
        for one in member.path():
            if one.limits is None or not has_budget(one.limits):
                continue
            shortage = one.cuts_short(now)
            if shortage is None or not one.running:
                one.is_cut_short = False
            elif not one.is_cut_short:
                one.is_cut_short = True
                self._cut_short(one, shortage.cause, str(shortage))
            self._watch_wall(one, now)

    def _watch_wall(self, member: Member, now: float) -> None:
        limits = member.limits
        if limits is None or limits.wall_seconds is None:
            return
        if not member.running:
            self.forget(member.id)
            return
        timer = self._walls.get(member.id)
        if timer is None:
            timer = self._walls[member.id] = Timer(member.id, self._wall_reached)
        left = limits.wall_seconds - member.used("wall_seconds", now)
        self._house.timers.set(timer, math.inf if left <= 0 else left / member.running)

    def _wall_reached(self, session_id: str) -> None:
        member = self._ledger.find(SessionId(session_id))
        if member is not None:
            self.watch(member)

    def _cut_short(self, spender: Member, cause: Cause, detail: str) -> None:
        """Stop every session whose running turn draws on what is spent; each is told once."""
        for member in (spender, *spender.below()):
            run = self._ledger.turns.get(member.id)
            if run is not None and run.turn is not None and not run.is_cut_short:
                run.is_cut_short = True
                self._house.desk.stop_soon(member.id, cause, detail)
