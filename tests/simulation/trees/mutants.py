"""Faults planted into trees, one at a time; the attacks must find each.

Rule 1: each is a small mistake that a change of this layer could introduce.
Rule 2: `plant` changes classes and tables through `monkeypatch`, which undoes it.
Rule 3: a fault that patches a removed name fails loudly and must be rewritten.
"""
# ruff: noqa: ANN401 - replacements accept the arguments of the originals, some of type Any

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from supervisor import Permissions, Phase
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.creation import SpawnRequest
from supervisor.core.ids import SessionId
from supervisor.core.liveness import check_silence
from supervisor.core.permissions import RIGHTS
from supervisor.core.rules import restarts, turn_flow
from supervisor.core.state import SessionState
from supervisor.core.step import Draft
from supervisor.core.tree import admission
from supervisor.core.tree.admission import TreeView
from supervisor.core.tree.node import TreeNode
from supervisor.core.tree.tree import SessionTree
from supervisor.sessions import admission as sessions_admission
from supervisor.sessions import liveness
from supervisor.sessions.admission import Admission
from supervisor.sessions.budgets import Budgets, Expiries
from supervisor.sessions.child_notifications import ChildNotifications
from supervisor.sessions.lifecycle import commit_write
from supervisor.sessions.spawn import Spawner
from supervisor.store.port import Write
from tests.simulation.planted_faults import Mutant
from tests.simulation.sessions.mutants import rule

from .attacks import (
    crash_children,
    fail_tree_writes,
    fill_process_caps,
    resume_below_stopping,
    spawn_below_suspended,
    spawn_concurrently,
    spend_shared_budget,
    stall,
    stop_during_spawn,
    wake_into_full_slots,
)
from .hook_mutants import HOOK_MUTANTS

Patch = pytest.MonkeyPatch


# Slots ------------------------------------------------------------------------------------


def counted_after_the_await(patch: Patch) -> None:
    real = Admission.admit_child

    def admit_child(self: Admission, *args: Any) -> TreeNode:
        member = real(self, *args)
        self.tree._set_state(member, "over")  # the fault: no slot until the commit
        return member

    patch.setattr(Admission, "admit_child", admit_child)


def slot_not_released(patch: Patch) -> None:
    real = SessionTree._set_state

    def add_hooks(self: SessionTree, member: TreeNode, standing: Any) -> None:
        before = member.parent.active_children if member.parent is not None else 0
        real(self, member, standing)
        if standing == "over" and member.parent is not None:
            member.parent.active_children = before  # the fault

    patch.setattr(SessionTree, "_set_state", add_hooks)


def reservation_not_withdrawn(patch: Patch) -> None:
    patch.setattr(Admission, "release", lambda self, session_id: None)


def released_twice(patch: Patch) -> None:
    real = SessionTree.apply

    def settle(
        self: SessionTree, session: SessionState, clock: Callable[[], float]
    ) -> TreeNode | None:
        member = real(self, session, clock)
        if session.phase is Phase.STOPPED and member is not None and member.parent is not None:
            member.parent.active_children = max(
                0, member.parent.active_children - 1
            )  # the fault: it was released before
        return member

    patch.setattr(SessionTree, "apply", settle)


def wake_up_takes_no_slot(patch: Patch) -> None:
    patch.setattr(sessions_admission, "lacks_child_slot", lambda member: False)


def resumed_without_check(patch: Patch) -> None:
    patch.setattr(sessions_admission, "resume_refusal", lambda *args, **kwargs: None)


def turn_taken_after_the_await(patch: Patch) -> None:
    real = SessionTree.reserve

    def foresee(
        self: SessionTree, session: SessionState, clock: Callable[[], float]
    ) -> TreeNode | None:
        turns = dict(self.turn_slots)
        member = real(self, session, clock)
        if session.id not in turns:
            self._release_turn_slot(session.id)  # the fault: counted at the commit
        return member

    patch.setattr(SessionTree, "reserve", foresee)


def turn_not_reserved(patch: Patch) -> None:
    real = SessionTree.admit

    def admit(self: SessionTree, session_id: SessionId, *args: Any, **kwargs: Any) -> TreeNode:
        member = real(self, session_id, *args, **kwargs)
        del self.turn_slots[session_id]  # the fault
        return member

    patch.setattr(SessionTree, "admit", admit)


def turn_queue_not_woken(patch: Patch) -> None:
    patch.setattr(Admission, "_wake_next", lambda self: None)


def slot_queue_not_woken(patch: Patch) -> None:
    patch.setattr(Admission, "_wake_slot_queue", lambda self, parent: None)


# Ends -------------------------------------------------------------------------------------


def restarted_after_a_stop(patch: Patch) -> None:
    def on_exit(draft: Draft, event: agent_events.AgentExited) -> None:
        if draft.state.turn is not None:
            turn_flow.end_turn(draft, "failed", output=event.output)
        failure = event.failure or restarts.EXITED_BEFORE_START
        restarts.restart_or_stop(
            draft, failure, jitter=event.jitter
        )  # the fault: ignores a stop request

    rule(patch, Phase.RUNNING, agent_events.AgentExited, on_exit)


def parent_ends_first(patch: Patch) -> None:
    real = Admission.view

    def tree_view(self: Admission, session: SessionState, event: ev.Event) -> TreeView:
        there = real(self, session, event)
        if session.phase is Phase.STOPPING:
            there = there.changed(dependents=0)  # the fault: dependents are not awaited
        return there

    patch.setattr(Admission, "view", tree_view)


def older_sibling_first(patch: Patch) -> None:
    patch.setattr(TreeNode, "has_younger_sibling", lambda self: False)


def order_of_admission(patch: Patch) -> None:
    patch.setattr(SessionTree, "mark_youngest", lambda self, session_id: None)


def dependents_not_stopped(patch: Patch) -> None:
    patch.setattr(Admission, "stop_dependents", lambda self, session_id: None)


def never_expires(patch: Patch) -> None:
    patch.setattr(Expiries, "update", lambda self, member: None)


# Rights and budgets -----------------------------------------------------------------------


def permissions_widened(patch: Patch) -> None:
    def within(parent: Permissions, asked: Permissions) -> Permissions:
        got: dict[str, Any] = {}
        for name in (*RIGHTS, "mode"):
            wanted = getattr(asked, name)
            got[name] = (
                getattr(parent, name) if wanted is None else wanted
            )  # the fault: no narrowing
        return Permissions(**got)

    patch.setattr(admission, "narrow_to_parent", within)


def depth_not_checked(patch: Patch) -> None:
    real = admission._require

    def require(limit: str, *rest: Any, **more: Any) -> None:
        if limit != "max_depth":
            real(limit, *rest, **more)

    patch.setattr(admission, "_require", require)


def budget_checked_at_turns_only(patch: Patch) -> None:
    patch.setattr(Budgets, "enforce", lambda self, member: None)
    patch.setattr(Budgets, "exhausted_budget", lambda self, session_id: None)


def childs_spending_not_passed_on(patch: Patch) -> None:
    def spend(member: TreeNode, change: Any) -> None:
        member.spent += change  # the fault: not counted for its ancestors

    patch.setattr(SessionTree, "_spend", staticmethod(spend))


# Notifications --------------------------------------------------------------------------------


def notification_sent_twice(patch: Patch) -> None:
    real = ChildNotifications.pending_for

    @contextmanager
    def pending_for(
        self: ChildNotifications, session: SessionState
    ) -> Iterator[agent_events.TreeChanged]:
        with real(self, session) as event:
            yield event
        kept = [news for news in event.news if news.kind == "over"]
        if kept:
            self._pending.setdefault(session.id, [])[:0] = kept[:1]  # the fault: it stays queued

    patch.setattr(ChildNotifications, "pending_for", pending_for)


def news_lost_with_its_reader(patch: Patch) -> None:
    real = ChildNotifications.pending_for

    @contextmanager
    def pending_for(
        self: ChildNotifications, session: SessionState
    ) -> Iterator[agent_events.TreeChanged]:
        with real(self, session) as event:
            removed = self._pending.pop(session.id, [])  # the fault: before the commit
            yield event
            self._pending[session.id] = removed + self._pending.pop(session.id, [])

    patch.setattr(ChildNotifications, "pending_for", pending_for)


def parent_not_told_in_the_same_commit(patch: Patch) -> None:
    async def begin(
        self: Spawner, parent_id: SessionId, child_id: SessionId, order: SpawnRequest, write: Write
    ) -> None:
        await commit_write(self._services, write)  # the fault: the child alone

    patch.setattr(Spawner, "_commit", begin)


# Liveness ---------------------------------------------------------------------------------


def stalled_while_asking(patch: Patch) -> None:
    def unasked(session: SessionState) -> SessionState:
        turn = session.turn
        return session if turn is None else session.changed(turn=turn.changed(requests=()))

    progress_of = liveness._last_progress

    def check_info(session: SessionState, *args: Any, **kwargs: Any) -> Any:
        return check_silence(unasked(session), *args, **kwargs)

    def progress(slot: Any, now: float) -> float:
        session = slot.session
        if session is None:
            return progress_of(slot, now)
        slot.session = unasked(session)  # the fault: a pending request counts as silence
        try:
            return progress_of(slot, now)
        finally:
            slot.session = session

    patch.setattr(liveness, "check_silence", check_info)
    patch.setattr(liveness, "_last_progress", progress)


def stalled_while_children_work(patch: Patch) -> None:
    # The fault: the progress of awaited children does not count.
    patch.setattr(liveness.Liveness, "_awaited_slots", lambda self, slot: iter(()))


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the cap is counted after the await",
        "8: reservations count as children",
        spawn_concurrently,
        ": children: ",
        counted_after_the_await,
    ),
    Mutant(
        "a slot is not released",
        "34: counts equal the rows",
        stop_during_spawn,
        "the admission has",
        slot_not_released,
    ),
    Mutant(
        "a reservation is not withdrawn",
        "15: a failed spawn leaves nothing behind",
        stop_during_spawn,
        "the admission",
        reservation_not_withdrawn,
    ),
    Mutant(
        "a slot is released twice",
        "34: counts equal the rows",
        stop_during_spawn,
        "the admission counts too few",
        released_twice,
    ),
    Mutant(
        "a wake-up takes no slot",
        "8: live children within the cap",
        wake_into_full_slots,
        ": children: ",
        wake_up_takes_no_slot,
    ),
    Mutant(
        "a resume is not checked",
        "8, 10: resume passes the same admission as spawn",
        resume_below_stopping,
        "it resumed",
        resumed_without_check,
    ),
    Mutant(
        "a turn is counted at the commit",
        "28: running turns within their cap",
        fill_process_caps,
        "running turns",
        turn_taken_after_the_await,
    ),
    Mutant(
        "a child has no reserved turn slot",
        "28: an admitted child has a reserved turn slot",
        fill_process_caps,
        "has a reserved turn slot",
        turn_not_reserved,
    ),
    Mutant(
        "the turn queue is not woken",
        "35: a session that waits for a turn slot gets one",
        fill_process_caps,
        "for ever",
        turn_queue_not_woken,
    ),
    Mutant(
        "the slot queue is not woken",
        "35: a session that waits for a child slot gets one",
        wake_into_full_slots,
        "is suspended for ever",
        slot_queue_not_woken,
    ),
    Mutant(
        "restarted after a user's stop",
        "19: a user's stop is never a crash",
        crash_children,
        "restarted after a stop request",
        restarted_after_a_stop,
    ),
    Mutant(
        "a parent ends before its children",
        "12, 13: children stop before parents",
        stop_during_spawn,
        "it ended before its children",
        parent_ends_first,
    ),
    Mutant(
        "the older sibling ends first",
        "13: in the reverse order of their start",
        stop_during_spawn,
        "it ended before the younger",
        older_sibling_first,
    ),
    Mutant(
        "siblings end in the order of admission",
        "13: in the reverse order of their start, as their parent recorded it",
        spawn_below_suspended,
        "it ended before the younger",
        order_of_admission,
    ),
    Mutant(
        "children are not told to stop",
        "12, 35: stopping a parent stops its dependents",
        stop_during_spawn,
        "is stopping for ever",
        dependents_not_stopped,
    ),
    Mutant(
        "expiries do not fire",
        "12: no session is active after its expiry",
        spawn_concurrently,
        "is active after its expiry",
        never_expires,
    ),
    Mutant(
        "permissions are widened",
        "11: a child's permissions are within its parent's",
        spawn_concurrently,
        "it has more permissions than its parent",
        permissions_widened,
    ),
    Mutant(
        "the depth is not checked",
        "9: depth within the maximum",
        spawn_concurrently,
        "the maximum is",
        depth_not_checked,
    ),
    Mutant(
        "budgets are checked at turn starts only",
        "38: at most one report above the budget",
        spend_shared_budget,
        ": tokens: ",
        budget_checked_at_turns_only,
    ),
    Mutant(
        "the spending of a child is not passed on",
        "38: a child spends from every ancestor",
        spend_shared_budget,
        ": turns: ",
        childs_spending_not_passed_on,
    ),
    Mutant(
        "a notification is sent twice",
        "34: each notification is sent once",
        crash_children,
        ": notifications",
        notification_sent_twice,
    ),
    Mutant(
        "notifications are lost with their reader",
        "22: notifications survive the actor of the parent",
        fail_tree_writes,
        ": final notifications",
        news_lost_with_its_reader,
    ),
    Mutant(
        "a child begins without its parent's record",
        "10: both records in one commit, or neither",
        spawn_concurrently,
        "without a record of its parent",
        parent_not_told_in_the_same_commit,
    ),
    Mutant(
        "stalled during a permission request",
        "29: a pending permission request is not a stall",
        stall,
        "while a permission request is pending",
        stalled_while_asking,
    ),
    Mutant(
        "stalled while its children work",
        "29: waiting for a working child is not a stall",
        stall,
        "stalled after",
        stalled_while_children_work,
    ),
    *HOOK_MUTANTS,
)
