"""Admission control for the session tree: limits, turn slots, expiry, parent notifications.

Rule 1: a check and its reservation are one synchronous step, before any commit is awaited.
Rule 2: the step that frees something wakes the session that waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio
from trio_util import RepeatedEvent

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.errors import SpawnRefused, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.names import ROOT_SCOPE
from supervisor.core.state import (
    IDLE,
    INACTIVE,
    STOPPED,
    STOPPING,
    SUSPENDED,
    SessionState,
)
from supervisor.core.tree.admission import (
    EMPTY_TREE_VIEW,
    AdmissionRequest,
    Caps,
    TreeView,
    admit,
    lacks_child_slot,
    refuse_above_caps,
    resume_refusal,
)
from supervisor.core.tree.node import TreeNode, TurnSlot, wants_turn
from supervisor.core.tree.tree import SessionTree
from supervisor.core.tree.tree_interrupt import levels_below
from supervisor.core.workspace_root import WorkspaceRoot

from .budgets import Budgets, Expiries
from .child_notifications import ChildNotifications, SpawnRefusals
from .names import NAMING_EVENTS, NameIndex
from .refusals import unknown_agent_problem
from .registry import SessionRegistry
from .services import Services, StopSession

# Events that may end the open turn; their view contains the seconds for which it ran.
_TURN_ENDING_EVENTS: Final[frozenset[type[ev.Event]]] = frozenset(
    {
        agent_events.TurnEnded,
        agent_events.AgentExited,
        agent_events.StartFailed,
        agent_events.LadderElapsed,
        agent_events.Claimed,
    }
)
_RESUMING_EVENTS: Final[frozenset[type[ev.Event]]] = frozenset(
    {ev.InputSubmitted, ev.ResumeRequested}
)


class Admission:
    """Admission control: owns the session tree and enforces its limits.

    `stop` orders a stop without waiting for it.
    """

    def __init__(
        self,
        services: Services,
        tree: SessionTree,
        registry: SessionRegistry,
        *,
        stop: StopSession,
    ) -> None:
        self._services = services
        self.tree = tree
        self.names = NameIndex()
        # Set by every step that may remove a session from `tree.processes`.
        self.process_freed = RepeatedEvent()
        self._registry = registry
        self._stop = stop
        settings = services.settings()
        self._caps = Caps(
            settings.max_sessions, settings.max_running_turns, settings.max_agent_processes
        )
        # Sessions that have an input and wait for a turn slot, in order.
        self._turn_queue: dict[SessionId, None] = {}
        # Suspended children that have an input and wait for a child slot, by parent.
        self._slot_queue: dict[SessionId, dict[SessionId, None]] = {}
        self._expiries = Expiries(services.timers, services.clock, stop=stop)
        self.notifications = ChildNotifications(services, registry)
        self.budgets = Budgets(services.timers, tree, stop=stop)
        self.spawn_refusals = SpawnRefusals()

    def set_caps(self, caps: Caps, process_agents: frozenset[str]) -> None:
        """Replace the caps and the names of process agents; wake sessions that wait for a slot."""
        self._caps = caps
        self.set_process_agents(process_agents)
        self._wake_next()

    def set_process_agents(self, names: frozenset[str]) -> None:
        """Replace the names of the agents that run as a process."""
        self.tree.process_agents = names

    # Admission ----------------------------------------------------------------------------

    def admit_root(
        self,
        session_id: SessionId,
        agent: str,
        workspace_root: WorkspaceRoot | None = None,
        *,
        name: str | None = None,
        replacing: SessionId | None = None,
    ) -> None:
        """Reserve a place and a name for a root and pin its workspace.

        Raise SpawnRefused or NameTaken. A session that replaces another in one commit uses the
        place and the name of that session.
        """
        if replacing not in self.tree.live:
            refuse_above_caps(self.tree, self._caps, agent)
        self.names.take(ROOT_SCOPE, name, session_id, replacing=replacing)
        self.tree.mark_live(session_id, agent)
        if workspace_root is not None:
            self.tree.pin_workspace(session_id, workspace_root)

    def admit_child(
        self, parent: SessionState, child_id: SessionId, wish: AdmissionRequest
    ) -> TreeNode:
        """Reserve a place for a child and return its node; raise SpawnRefused."""
        parent_node = self.tree.find(parent.id)
        if parent_node is None and parent.id not in self.tree.live:
            # The caller read the parent's row before the parent was deleted.
            raise SpawnRefused(
                f"session {parent.id} is deleted", hint="spawn from another session", limit="parent"
            )
        parent_node = parent_node or self.tree.add(parent)
        return admit(
            self.tree,
            self._caps,
            parent_node,
            child_id,
            wish,
            steady_at=self._services.clock.steady(),
            now=trio.current_time(),
        )

    def release(self, session_id: SessionId) -> None:
        """Withdraw the reservation of a session that was not created."""
        member = self.tree.find(session_id)
        self.tree.withdraw(session_id)
        self.names.forget(session_id)
        self.process_freed.set()
        if member is not None:
            self._wake_relatives(member)
        self._wake_next()

    def delete(self, session_id: SessionId) -> None:
        """Drop everything about a deleted session."""
        self.tree.delete(session_id)
        self.names.forget(session_id)
        self.process_freed.set()
        self._turn_queue.pop(session_id, None)
        self.notifications.forget(session_id)
        self.budgets.forget(session_id)
        self.spawn_refusals.forget(session_id)
        for parent_id in [one for one, queue in self._slot_queue.items() if session_id in queue]:
            self._leave_slot_queue(parent_id, session_id)
        self._expiries.cancel(session_id)
        self._services.instruments.deleted(session_id)
        self._wake_next()

    def _wake_relatives(self, withdrawn: TreeNode) -> None:
        """Wake the sessions that wait for the stop, or for the slot, of a withdrawn node."""
        parent = withdrawn.parent
        if parent is not None:
            if self.tree.find(parent.id) is parent:  # otherwise it is deleted
                self._registry.wake(parent.id)
            self._wake_next_to_stop(parent)
            self._wake_slot_queue(parent)

    @contextmanager
    def closed_to_spawns(self, member: TreeNode) -> Iterator[None]:
        """Refuse spawns by the node and its descendants while the block runs."""
        member.tree_interrupts += 1
        try:
            yield
        finally:
            member.tree_interrupts -= 1

    def is_descendant(self, session_id: str, above: SessionId) -> bool:
        """Return True if the first session is a descendant of the second."""
        member = self.tree.find(SessionId(session_id)) if isinstance(session_id, str) else None
        parent = member.parent if member is not None else None
        return parent is not None and any(one.id == above for one in parent.path())

    # Steps of sessions ---------------------------------------------------------------------

    def view(self, session: SessionState, event: ev.Event) -> TreeView:
        """Return the tree facts for a step of the session, sampled now."""
        tree, kind = self.tree, type(event)
        member, run = tree.find(session.id), tree.turn_slots.get(session.id)
        turn_slots_full = self._turn_slots_full(run)
        comes_back = session.phase is STOPPED and kind in _RESUMING_EVENTS
        takes_a_name = kind in NAMING_EVENTS
        ends_a_turn = kind in _TURN_ENDING_EVENTS
        leaving = self._services.run_state.is_shutting_down
        is_affected = turn_slots_full or comes_back or takes_a_name or leaving or ends_a_turn
        if member is None and not is_affected:
            return EMPTY_TREE_VIEW
        now = self._services.clock.loop_time()
        ran = run.ran_seconds(now) if ends_a_turn and run is not None else None
        refusal = self._resume_refusal(session, now) if comes_back else None
        if takes_a_name:
            refusal = self.names.refusal(session, event)
        if member is None:
            return TreeView(
                turn_slots_full=turn_slots_full,
                child_slots_full=leaving,
                shutting_down=leaving,
                refusal=refusal,
                ran_seconds=ran,
            )
        return TreeView(
            dependents=self._dependent_count(member, session),
            has_active_children=member.active_dependents > 0,
            turn_slots_full=turn_slots_full,
            child_slots_full=leaving or lacks_child_slot(member),
            shutting_down=leaving,
            tree_interrupted=any(one.tree_interrupts for one in member.path()),
            levels=levels_below(member) if isinstance(event, ev.TreeInterruptRequested) else (),
            has_younger_sibling=member.has_younger_sibling(),
            is_parent_live=self._is_stale_parent_stop(session, event),
            exhausted_budget=next(member.exhausted_budgets(now), None),
            refusal=refusal,
            ran_seconds=ran,
        )

    def _dependent_count(self, member: TreeNode, session: SessionState) -> int:
        """Return the number of with_parent children that must stop before this session can."""
        if not self._services.health.is_degraded or session.phase is not STOPPING:
            return member.dependent_count
        # All were ordered to stop. A child that is only admitted does nothing until its creation is
        # written, and then finds its parent stopped: the parent need not wait for it.
        return sum(one.state != "admitted" for one in member.dependents())

    def _resume_refusal(self, session: SessionState, now: float) -> SupervisorError | None:
        """Return why a stopped session may not be resumed, or None."""
        steady_at = self._services.clock.steady()
        return (
            self._services.removals.problem(session.id)
            or resume_refusal(self.tree, self._caps, session, steady_at=steady_at, now=now)
            or unknown_agent_problem(session.agent_name, self._services.agents)
            or self.names.refusal(session)
        )

    def _turn_slots_full(self, run: TurnSlot | None) -> bool:
        """Return True if a session with that turn slot may not start its next turn."""
        if run is not None and run.turn is None:
            return False  # the slot is reserved for it
        taken_by_others = len(self.tree.turn_slots) - (run is not None)
        # A session that has just ended a turn queues behind those that wait for one.
        return bool(self._turn_queue) or taken_by_others >= self._caps.max_running_turns

    def reserve(self, session: SessionState) -> None:
        """Reserve what the state needs, before it is committed."""
        self.names.reserve(session)
        member = self.tree.reserve(session, self._services.clock.loop_time)
        if member is not None and member.parent is not None and session.phase is STOPPED:
            self._wake_next_to_stop(member.parent)

    def apply(self, session: SessionState) -> None:
        """Apply a committed state: release what it no longer needs, wake and notify others."""
        self.names.apply(session)
        known = self.tree.find(session.id)
        limits = known.limits if known is not None else session.limits
        member = self.tree.apply(session, self._services.clock.loop_time)
        if session.phase in INACTIVE:
            self.process_freed.set()
        if session.inputs or self._turn_queue:
            self._update_turn_queue(session)
        if member is not None:
            if member.limits != limits:
                for one in member.iter_descendants():
                    self._wake_slot_queue(one)
            self._apply_to_relatives(member, session)
        if self._turn_queue:
            self._wake_next()

    def _apply_to_relatives(self, member: TreeNode, session: SessionState) -> None:
        """Wake and notify the sessions around a node that has changed; enforce its limits."""
        self._wake_slot_queue(member)
        self._expiries.update(member)
        parent = member.parent
        if parent is not None:
            if self.tree.find(parent.id) is parent:  # otherwise it is deleted
                self.notifications.notify_parent(parent, member, session)
            self._update_slot_queue(parent, session)
            self._wake_slot_queue(parent)
        self.budgets.enforce(member)

    def waits_for(self, session_id: SessionId) -> str | None:
        """Return what the session waits for in the tree: a turn slot or a child slot."""
        if session_id in self._turn_queue:
            return "turn_slot"
        return "child_slot" if self.waits_for_child_slot(session_id) else None

    def needs_recheck(self, session_id: SessionId) -> bool:
        """Return True if the session must re-evaluate itself against the tree."""
        return self._registry.needs_recheck(session_id)

    # Turns ---------------------------------------------------------------------------------

    def _update_turn_queue(self, session: SessionState) -> None:
        waits = session.phase is IDLE and wants_turn(session)
        if waits and session.id not in self.tree.turn_slots:
            self._turn_queue.setdefault(session.id)
        elif self._turn_queue:
            self._turn_queue.pop(session.id, None)

    def _wake_next(self) -> None:
        if self._services.is_shutting_down:
            return
        while self._turn_queue and len(self.tree.turn_slots) < self._caps.max_running_turns:
            session_id = next(iter(self._turn_queue))
            del self._turn_queue[session_id]
            self.tree.reserve_turn(session_id)
            self._registry.wake(session_id)

    # Child slots ---------------------------------------------------------------------------

    def _update_slot_queue(self, parent: TreeNode, session: SessionState) -> None:
        if session.phase is SUSPENDED and session.inputs:
            self._slot_queue.setdefault(parent.id, {}).setdefault(session.id)
        elif parent.id in self._slot_queue:
            self._leave_slot_queue(parent.id, session.id)

    def _leave_slot_queue(self, parent_id: SessionId, session_id: SessionId) -> None:
        queue = self._slot_queue[parent_id]
        queue.pop(session_id, None)
        if not queue:
            del self._slot_queue[parent_id]

    def _wake_slot_queue(self, parent: TreeNode) -> None:
        queue = self._slot_queue.get(parent.id)
        if queue and not self._services.is_shutting_down:
            for session_id in list(queue)[: parent.free_child_slots]:
                self._registry.wake(session_id)

    def waits_for_child_slot(self, session_id: SessionId) -> bool:
        """Return True if the session is suspended only because its parent has no child slot."""
        member = self.tree.find(session_id)
        parent = member.parent if member is not None else None
        return parent is not None and session_id in self._slot_queue.get(parent.id, ())

    # Stops ---------------------------------------------------------------------------------

    def stop_dependents(self, session_id: SessionId) -> None:
        """Order every with_parent child to stop; they stop the youngest first."""
        member = self.tree.find(session_id)
        for child in reversed([] if member is None else member.order_stops()):
            self._stop(child.id, "parent_stopped", None)

    def must_stop_with_parent(self, session: SessionState) -> bool:
        """Return True if a with_parent child must stop because its parent stopped or stops it."""
        member = self.tree.find(session.id)
        if member is None or member.parent is None or member.lifetime == "detached":
            return False
        # Not before a stopping parent orders it: children stop in their order.
        return member.is_in_stop_order or member.parent.state == "over"

    def _is_stale_parent_stop(self, session: SessionState, event: ev.Event) -> bool:
        """Return True if the event is a parent_stopped order from before the parent's resume."""
        ordered = isinstance(event, ev.StopRequested) and event.cause == "parent_stopped"
        return ordered and not self.must_stop_with_parent(session)

    def last_dependent(self, session_id: SessionId) -> SessionId | None:
        """Return the child that a stopping session waits for first."""
        member = self.tree.find(session_id)
        dependents = member.dependents() if member is not None else []
        return dependents[-1].id if dependents else None

    def _wake_next_to_stop(self, parent: TreeNode) -> None:
        """Wake the next child in stop order, after a younger one has stopped."""
        last = parent.next_to_stop()
        if last is not None and last.state != "admitted":  # admitted: not written yet
            self._registry.wake(last.id)
