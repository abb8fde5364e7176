"""Faults planted into the tree, one at a time, to see that the attacks would find them.

Rule 1: each is a mistake somebody could make while mending this layer, and small.
Rule 2: `plant` changes classes and tables through `monkeypatch`, which takes it back.
Rule 3: a fault that touches what no longer exists fails loudly; it is then written anew.
"""

# ruff: noqa: ANN401 - stand-ins take what the real ones take, and some of that is anything

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from supervisor import Permissions, Phase
from supervisor.core import events as ev
from supervisor.core.ids import SessionId
from supervisor.core.liveness import look_at
from supervisor.core.permissions import RIGHTS
from supervisor.core.rules import after, agents, flow
from supervisor.core.session import Session
from supervisor.core.step import Draft
from supervisor.core.tree import admission
from supervisor.core.tree.ledger import Ledger
from supervisor.core.tree.member import Member
from supervisor.core.tree.situation import Situation
from supervisor.sessions.desk import desk as desk_module
from supervisor.sessions.desk.bell import Bell
from supervisor.sessions.desk.desk import Desk
from supervisor.sessions.desk.purse import Purse
from supervisor.sessions.desk.spawning import Order, Spawning
from supervisor.sessions.shell.watch import liveness
from supervisor.store.port import Write
from tests.simulation.finding import Mutant
from tests.simulation.sessions.mutants import rule

from .attacks import (
    come_back,
    crowd_the_house,
    lose_children,
    spawn_below_a_sleeper,
    spawn_in_loops,
    spend_together,
    stall,
    stop_in_mid_spawn,
    trouble_a_tree,
    wake_up_into_a_full_house,
)
from .mutants_of_doors import MUTANTS_OF_DOORS

Patch = pytest.MonkeyPatch


# Places -----------------------------------------------------------------------------------


def counted_after_the_await(patch: Patch) -> None:
    real = Desk.admit_child

    def admit_child(self: Desk, *args: Any) -> Member:
        member = real(self, *args)
        self.ledger._stand(member, "over")  # the fault: it has no place until it is written
        return member

    patch.setattr(Desk, "admit_child", admit_child)


def slot_not_released(patch: Patch) -> None:
    real = Ledger._stand

    def stand(self: Ledger, member: Member, standing: Any) -> None:
        before = member.parent.up if member.parent is not None else 0
        real(self, member, standing)
        if standing == "over" and member.parent is not None:
            member.parent.up = before  # the fault

    patch.setattr(Ledger, "_stand", stand)


def reservation_not_withdrawn(patch: Patch) -> None:
    patch.setattr(Desk, "withdraw", lambda self, session_id: None)


def released_twice(patch: Patch) -> None:
    real = Ledger.settle

    def settle(self: Ledger, session: Session, now: float) -> None:
        real(self, session, now)
        member = self.find(session.id)
        if session.phase is Phase.STOPPED and member is not None and member.parent is not None:
            member.parent.up = max(0, member.parent.up - 1)  # the fault: it was given back before

    patch.setattr(Ledger, "settle", settle)


def place_not_asked_for_on_waking(patch: Patch) -> None:
    patch.setattr(desk_module, "has_no_place", lambda member: False)


def came_back_unasked(patch: Patch) -> None:
    patch.setattr(desk_module, "problem_of_return", lambda *args, **kwargs: None)


def turn_taken_after_the_await(patch: Patch) -> None:
    real = Ledger.foresee

    def foresee(self: Ledger, session: Session, now: float) -> None:
        turns = dict(self.turns)
        real(self, session, now)
        if session.id not in turns:
            self._release(session.id)  # the fault: it counts when it is written

    patch.setattr(Ledger, "foresee", foresee)


def turn_not_promised(patch: Patch) -> None:
    real = Ledger.admit

    def admit(self: Ledger, session_id: SessionId, *args: Any, **kwargs: Any) -> Member:
        member = real(self, session_id, *args, **kwargs)
        del self.turns[session_id]  # the fault
        return member

    patch.setattr(Ledger, "admit", admit)


def line_not_called(patch: Patch) -> None:
    patch.setattr(Desk, "_call_next", lambda self: None)


def sleepers_not_called(patch: Patch) -> None:
    patch.setattr(Desk, "_call_sleepers", lambda self, parent: None)


# Ends -------------------------------------------------------------------------------------


def restarted_after_a_stop(patch: Patch) -> None:
    def gone(draft: Draft, event: ev.AgentExited) -> None:
        if draft.session.turn is not None:
            flow.end_turn(draft, "failed", said=event.said)
        failure = event.failure or agents._NEVER_UP
        after.restart_or_stop(draft, failure, jitter=event.jitter)  # the fault: whatever was asked

    rule(patch, Phase.RUNNING, ev.AgentExited, gone)


def parent_ends_first(patch: Patch) -> None:
    real = Desk.situation

    def situation(self: Desk, session: Session, event: ev.Event) -> Situation:
        there = real(self, session, event)
        if session.phase is Phase.STOPPING:
            there = attrs.evolve(there, dependents=0)  # the fault: nobody is waited for
        return there

    patch.setattr(Desk, "situation", situation)


def older_sibling_first(patch: Patch) -> None:
    patch.setattr(Member, "has_younger", lambda self: False)


def order_of_admission(patch: Patch) -> None:
    patch.setattr(Ledger, "count_as_youngest", lambda self, session_id: None)


def dependents_not_stopped(patch: Patch) -> None:
    patch.setattr(Desk, "stop_dependents", lambda self, session_id: None)


def never_expires(patch: Patch) -> None:
    patch.setattr(Desk, "_expire_in_time", lambda self, member: None)


# Rights and budgets -----------------------------------------------------------------------


def permissions_widened(patch: Patch) -> None:
    def within(parent: Permissions, asked: Permissions) -> Permissions:
        got: dict[str, Any] = {}
        for name in (*RIGHTS, "mode"):
            wanted = getattr(asked, name)
            got[name] = getattr(parent, name) if wanted is None else wanted  # the fault: whatever
        return Permissions(**got)

    patch.setattr(admission, "within", within)


def depth_not_checked(patch: Patch) -> None:
    real = admission._require

    def require(limit: str, *rest: Any) -> None:
        if limit != "max_depth":
            real(limit, *rest)

    patch.setattr(admission, "_require", require)


def budget_checked_at_turns_only(patch: Patch) -> None:
    patch.setattr(Purse, "watch", lambda self, member: None)
    patch.setattr(Purse, "what_is_spent", lambda self, session_id: None)


def childs_spending_not_passed_on(patch: Patch) -> None:
    def spend(member: Member, change: Any) -> None:
        member.spent += change  # the fault: not to those above it

    patch.setattr(Ledger, "_spend", staticmethod(spend))


# News -------------------------------------------------------------------------------------


def news_told_twice(patch: Patch) -> None:
    real = Bell.news_for

    @contextmanager
    def news_for(self: Bell, session: Session) -> Iterator[ev.FamilyChanged]:
        with real(self, session) as event:
            yield event
        kept = [news for news in event.news if news.what == "over"]
        if kept:
            self._news.setdefault(session.id, [])[:0] = kept[:1]  # the fault: it is still there

    patch.setattr(Bell, "news_for", news_for)


def news_lost_with_its_reader(patch: Patch) -> None:
    real = Bell.news_for

    @contextmanager
    def news_for(self: Bell, session: Session) -> Iterator[ev.FamilyChanged]:
        with real(self, session) as event:
            gone = self._news.pop(session.id, [])  # the fault: before it is written
            yield event
            self._news[session.id] = gone + self._news.pop(session.id, [])

    patch.setattr(Bell, "news_for", news_for)


def parent_not_told_in_the_same_commit(patch: Patch) -> None:
    async def begin(
        self: Spawning, parent_id: SessionId, child_id: SessionId, order: Order, write: Write
    ) -> None:
        await self._house.register.write(write)  # the fault: the child alone

    patch.setattr(Spawning, "_begin", begin)


# Liveness ---------------------------------------------------------------------------------


def stalled_while_asking(patch: Patch) -> None:
    def unasked(session: Session) -> Session:
        turn = session.turn
        return session if turn is None else session.changed(turn=attrs.evolve(turn, requests=()))

    progress_of = liveness._progress_of

    def look(session: Session, *args: Any, **kwargs: Any) -> Any:
        return look_at(unasked(session), *args, **kwargs)

    def progress(seat: Any, now: float) -> float:
        session = seat.session
        if session is None:
            return progress_of(seat, now)
        seat.session = unasked(session)  # the fault: who waits for a person is as silent as any
        try:
            return progress_of(seat, now)
        finally:
            seat.session = session

    patch.setattr(liveness, "look_at", look)
    patch.setattr(liveness, "_progress_of", progress)


def stalled_while_children_work(patch: Patch) -> None:
    # The fault: only what it does itself counts.
    patch.setattr(liveness, "_awaited", lambda house, seat: iter(()))


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the cap is counted after the await",
        "8: reservations count as children",
        spawn_in_loops,
        ": children: ",
        counted_after_the_await,
    ),
    Mutant(
        "a place is not given back",
        "34: counts equal the truth",
        stop_in_mid_spawn,
        "the desk has",
        slot_not_released,
    ),
    Mutant(
        "a reservation is not withdrawn",
        "15: who fails to begin leaves nothing half done",
        stop_in_mid_spawn,
        "the desk",
        reservation_not_withdrawn,
    ),
    Mutant(
        "a place is given back twice",
        "34: counts equal the truth",
        stop_in_mid_spawn,
        "the desk counts too few",
        released_twice,
    ),
    Mutant(
        "who wakes up asks for no place",
        "8: live children within the cap",
        wake_up_into_a_full_house,
        ": children: ",
        place_not_asked_for_on_waking,
    ),
    Mutant(
        "who comes back asks for no place",
        "8, 10: resume passes the same admission as spawn",
        come_back,
        "came back",
        came_back_unasked,
    ),
    Mutant(
        "a turn counts when it is written",
        "28: running turns within their cap",
        crowd_the_house,
        "running turns",
        turn_taken_after_the_await,
    ),
    Mutant(
        "a child is promised no turn",
        "28: who is admitted has a turn to begin with",
        crowd_the_house,
        "was promised a turn",
        turn_not_promised,
    ),
    Mutant(
        "nobody calls the next in line",
        "35: who waits for a turn gets one",
        crowd_the_house,
        "for ever",
        line_not_called,
    ),
    Mutant(
        "nobody calls those who sleep",
        "35: who waits for a place gets one",
        wake_up_into_a_full_house,
        "sleeps for ever",
        sleepers_not_called,
    ),
    Mutant(
        "restarted after a user's stop",
        "19: a user's stop is never a crash",
        lose_children,
        "restarted though it was to stop",
        restarted_after_a_stop,
    ),
    Mutant(
        "a parent ends before its children",
        "12, 13: children stop before parents",
        stop_in_mid_spawn,
        "it ended before its children",
        parent_ends_first,
    ),
    Mutant(
        "the older sibling ends first",
        "13: in the reverse order of their start",
        stop_in_mid_spawn,
        "it ended before the younger",
        older_sibling_first,
    ),
    Mutant(
        "siblings end by how they were admitted",
        "13: in the reverse order of their start, as their parent has it on record",
        spawn_below_a_sleeper,
        "it ended before the younger",
        order_of_admission,
    ),
    Mutant(
        "children are not told to stop",
        "12, 35: stopping a parent stops all that live with it",
        stop_in_mid_spawn,
        "is stopping for ever",
        dependents_not_stopped,
    ),
    Mutant(
        "expiries do not fire",
        "12: nobody outlives their time",
        spawn_in_loops,
        "has outlived its time",
        never_expires,
    ),
    Mutant(
        "permissions are widened",
        "11: a child's permissions are within its parent's",
        spawn_in_loops,
        "it may do more than its parent",
        permissions_widened,
    ),
    Mutant(
        "nobody looks how deep it is",
        "9: depth within the maximum",
        spawn_in_loops,
        "are allowed",
        depth_not_checked,
    ),
    Mutant(
        "budgets are looked at when a turn begins",
        "38: at most one report above what was left",
        spend_together,
        ": tokens: ",
        budget_checked_at_turns_only,
    ),
    Mutant(
        "a child spends for itself alone",
        "38: a child spends from every ancestor",
        spend_together,
        ": turns: ",
        childs_spending_not_passed_on,
    ),
    Mutant(
        "news is told twice",
        "34: each thing that became of a child is told once",
        lose_children,
        "was told,",
        news_told_twice,
    ),
    Mutant(
        "news is lost with who was reading it",
        "22: what a parent is to be told survives its actor",
        trouble_a_tree,
        "was told at last",
        news_lost_with_its_reader,
    ),
    Mutant(
        "a child begins without its parent's record",
        "10: both say so in one commit, or neither",
        spawn_in_loops,
        "its parent does not say so",
        parent_not_told_in_the_same_commit,
    ),
    Mutant(
        "stalled while it waits for a person",
        "29: waiting for a person is no stall",
        stall,
        "while it waits for a person",
        stalled_while_asking,
    ),
    Mutant(
        "stalled while its children work",
        "29: waiting for a child that works is no stall",
        stall,
        "stalled after",
        stalled_while_children_work,
    ),
    *MUTANTS_OF_DOORS,
)
