"""The session tree: nodes, live sessions, agent processes and turn slots.

Rule 1: one slot per session, taken and released by setting its state from its row. A slot is
        taken before the commit and released after it.
Rule 2: a session without parent, child and budget has no node; it is only in `live`.
Rule 3: `now` is a clock for durations, `steady_at` an instant that is compared with stored ones;
        both are arguments. `clock` is read only where a turn starts, not in every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import Lifetime
from supervisor.core.state import (
    STOPPED,
    STOPPING,
    SUSPENDED,
    SessionState,
    Spending,
    Usage,
)
from supervisor.core.workspace_root import WorkspaceRoot

from .node import SLOTS_NEEDED, NodeState, TreeNode, TurnSlot, node_state, wants_turn

# A session that failed to start in a replaced workspace is not resumed there by its next input.
MAX_STOPPED_PINS: Final = 10_000


class SessionTree:
    """All nodes, and the slots that all sessions share."""

    def __init__(self, process_agents: frozenset[str] = frozenset()) -> None:
        # Agents of these names run as a process while their session is active.
        self.process_agents = process_agents
        # Invariant: every session of such an agent that is not inactive, from its admission on.
        self.processes: set[SessionId] = set()
        self._nodes: dict[SessionId, TreeNode] = {}
        # Return the node of a session, if it has one. The method of the dict, because each step
        # of each session calls it twice.
        self.find: Callable[[SessionId], TreeNode | None] = self._nodes.get
        # Nodes of sessions that were deleted before a restart, while they have descendants.
        self._deleted: dict[SessionId, TreeNode] = {}
        # Invariant: every session that is not stopped, from its admission on.
        self.live: set[SessionId] = set()
        # Invariant: the pinned workspaces of sessions in `live`, and of at most twice
        # MAX_STOPPED_PINS others; see `sessions/workspaces.py`. Changed by `pin_workspace` and
        # `unpin_workspace` only.
        self.workspace_roots: dict[SessionId, WorkspaceRoot] = {}
        # Invariant: every running turn, and every reservation for one.
        self.turn_slots: dict[SessionId, TurnSlot] = {}

    # Nodes --------------------------------------------------------------------------------

    def add(self, session: SessionState) -> TreeNode:
        """Return the session's node; create it from the row if it is missing.

        The nodes of its parent and of deleted ancestors exist already; see `add_deleted_ancestors`.
        """
        member = self._nodes.get(session.id)
        if member is None:
            lineage = session.lineage
            parent = self._parent_node(session)
            member = self._add_node(session.id, parent, lineage.depth, lineage.lifetime)
            member.on_end = lineage.on_end
            member.role = lineage.role
            member.expires_at = lineage.expires_at
            member.agent = session.agent_name
            member.name = session.name
            member.permissions = session.permissions
            member.workspace = session.workspace
            member.limits = session.limits
            member.is_stopping = session.phase is STOPPING
            member.is_end_reported = session.phase is STOPPED
            member.is_result_reported = session.family.outcome is not None
            self._count_spawns(member, 1 + session.family.deleted_spawns)
            member.spawns += session.family.deleted_spawns
            self._spend(member, session.family.deleted)
            self._set_state(member, node_state(session))
            self._set_own_spent(member, session.spending)
            run = self.turn_slots.get(session.id)
            if run is not None and run.turn is not None:
                self._count_running(member, run, 1)
        return member

    def _add_root(self, session: SessionState) -> TreeNode | None:
        """Create the node of a root with a budget; a child has had its node since admission."""
        return self.add(session) if session.lineage.parent is None else None

    def _parent_node(self, session: SessionState) -> TreeNode | None:
        """Return the node of the session's parent, also if the parent was deleted."""
        lineage = session.lineage
        if lineage.parent is None:
            return None
        return self._nodes.get(lineage.parent) or self._deleted.get(lineage.parent)

    def add_deleted_ancestors(self, above: Sequence[SessionId]) -> None:
        """Create a node for each deleted ancestor, the root first: remaining ancestors still count.

        `find` does not return such a node, and its state is `over`, so no descendant is resumed.
        """
        parent: TreeNode | None = None
        for depth, session_id in enumerate(above):
            node = self._nodes.get(session_id) or self._deleted.get(session_id)
            if node is None:
                node = self._deleted[session_id] = TreeNode(
                    session_id, parent, depth, "with_parent"
                )
            parent = node

    def _add_node(
        self, session_id: SessionId, parent: TreeNode | None, depth: int, lifetime: Lifetime
    ) -> TreeNode:
        # A session whose row was unreadable and is readable again has the node of its children.
        member = self._deleted.pop(session_id, None) or TreeNode(
            session_id, parent, depth, lifetime
        )
        member.lifetime = lifetime
        self._nodes[session_id] = member
        return member

    def is_deleted_ancestor(self, session_id: SessionId) -> bool:
        """Return True for a deleted session that has descendants."""
        return session_id in self._deleted

    def mark_live(self, session_id: SessionId, agent: str) -> None:
        """Count a session that is about to be created as live."""
        self.live.add(session_id)
        if agent in self.process_agents:
            self.processes.add(session_id)

    def admit(
        self, session_id: SessionId, parent: TreeNode, lifetime: Lifetime, *, agent: str = ""
    ) -> TreeNode:
        """Add a node for a child that is about to be created; it takes its slots now."""
        member = self._add_node(session_id, parent, parent.depth + 1, lifetime)
        self.mark_live(session_id, agent)
        self._count_spawns(member, 1)
        self._set_state(member, "admitted")
        self.turn_slots[session_id] = TurnSlot(None, 0.0)
        return member

    def mark_youngest(self, session_id: SessionId) -> None:
        """Move the session behind its siblings, because its start was recorded last."""
        member = self._nodes.get(session_id)
        siblings = {} if member is None or member.parent is None else member.parent.children
        if member is not None and siblings.pop(session_id, None) is not None:
            siblings[session_id] = member

    def pin_workspace(self, session_id: SessionId, root: WorkspaceRoot) -> None:
        """Pin a session's workspace; forget the oldest pins of stopped sessions beyond a bound."""
        pins = self.workspace_roots
        pins[session_id] = root
        if len(pins) > len(self.live) + 2 * MAX_STOPPED_PINS:
            stopped = [one for one in pins if one not in self.live]
            for one in stopped[:-MAX_STOPPED_PINS]:
                del pins[one]

    def unpin_workspace(self, session_id: SessionId) -> None:
        """Forget the folder of a session's workspace."""
        self.workspace_roots.pop(session_id, None)

    def withdraw(self, session_id: SessionId) -> None:
        """Remove the node of a child that was admitted and not created."""
        member = self._nodes.pop(session_id, None)
        self._unmark_live(session_id)
        self.unpin_workspace(session_id)
        self.turn_slots.pop(session_id, None)
        if member is not None:
            self._set_state(member, "over")
            self._count_spawns(member, -1)

    def delete(self, session_id: SessionId) -> None:
        """Remove a stopped session; its spending stays counted.

        Its remaining descendants keep its node, which `find` does not return, so that the ancestors
        still count them.
        """
        self._unmark_live(session_id)
        self.unpin_workspace(session_id)
        self._release_turn_slot(session_id)
        member = self._nodes.pop(session_id, None)
        if member is not None:
            self._set_state(member, "over")

    # Rows ---------------------------------------------------------------------------------

    def reserve(self, session: SessionState, clock: Callable[[], float]) -> TreeNode | None:
        """Take the slots of a row that is about to be committed; return its node, if any."""
        session_id, phase = session.id, session.phase
        member = self._nodes.get(session_id)
        if member is None and session.limits is not None and session.limits.has_budget:
            member = self._add_root(session)
        if phase is not STOPPED:
            self.live.add(session_id)
            if session.agent_name in self.process_agents and phase is not SUSPENDED:
                self.processes.add(session_id)
        if session.turn is not None:
            self._start_turn(session_id, member, session.turn.id, clock)
        if member is not None:
            state = node_state(session)
            if SLOTS_NEEDED[state] > SLOTS_NEEDED[member.state]:
                self._set_state(member, state)
            self._set_own_spent(member, self._spending_of(session))
            member.is_stopping = member.is_stopping or phase is STOPPING
            member.is_ending = state == "over"
        return member

    def apply(self, session: SessionState, clock: Callable[[], float]) -> TreeNode | None:
        """Set the node and all slots from a committed row; return the node, if any."""
        session_id, turn = session.id, session.turn
        member, run = self._nodes.get(session_id), self.turn_slots.get(session_id)
        if member is None:
            if session.limits is not None and session.limits.has_budget:
                member = self._add_root(session)
            elif run is not None and turn is not None and run.turn == turn.id:
                run.previous = None  # the usual start of a turn: `reserve` has done the rest
                return None
        if run is not None and run.previous is not None:
            run = self._undo_reservation(session, member, run)
        if session.phase is STOPPED:
            self._unmark_live(session_id)
        else:
            self.mark_live(session_id, session.agent_name)
            if session.phase is SUSPENDED:
                self.processes.discard(session_id)
        if turn is not None:
            self._start_turn(session_id, member, turn.id, clock)
        elif run is not None and not (run.turn is None and wants_turn(session)):
            self._release_turn_slot(session_id)
        if member is not None:
            self._apply_to_node(member, session)
        return member

    def _apply_to_node(self, member: TreeNode, session: SessionState) -> None:
        self._set_state(member, node_state(session))
        self._set_own_spent(member, self._spending_of(session))
        member.name = session.name
        member.limits = session.limits
        member.is_stopping = session.phase is STOPPING
        if member.is_ending and member.state != "over" and member.parent is not None:
            member.parent.requeue_stop(member)
        if member.state == "over":
            member.is_in_stop_order = False
        member.is_ending = False

    def apply_suspended(self, session_ids: Iterable[SessionId]) -> None:
        """Count suspended sessions that have no node."""
        self.live.update(session_ids)

    def report_usage(self, session_id: SessionId, turn: TurnId, usage: Usage) -> None:
        """Add usage that an agent reported; it counts before it is committed."""
        run = self.turn_slots.get(session_id)
        member = self._nodes.get(session_id)
        if run is not None and member is not None and run.turn == turn:
            run.reported_usage += usage
            tokens = usage.input_tokens + usage.output_tokens
            self._set_own_spent(member, member.own_spent + Spending(0, tokens, usage.cost))

    def reserve_turn(self, session_id: SessionId) -> None:
        """Reserve a turn slot for the session's next turn."""
        self.turn_slots.setdefault(session_id, TurnSlot(None, 0.0))

    def _unmark_live(self, session_id: SessionId) -> None:
        self.live.discard(session_id)
        self.processes.discard(session_id)

    # Private ------------------------------------------------------------------------------

    def _spending_of(self, session: SessionState) -> Spending:
        """Return the spending of the row plus the usage reported since."""
        spending = session.spending
        run = self.turn_slots.get(session.id)
        if run is None or session.turn is None or run.turn != session.turn.id:
            return spending
        reported, written = run.reported_usage, session.turn.usage
        tokens = reported.input_tokens + reported.output_tokens
        tokens -= written.input_tokens + written.output_tokens
        return spending + Spending(0, max(0, tokens), max(0.0, reported.cost - written.cost))

    def _set_state(self, member: TreeNode, state: NodeState) -> None:
        before, member.state = member.state, state
        parent = member.parent
        if parent is None:
            return
        was_up, is_up = SLOTS_NEEDED[before] > 1, SLOTS_NEEDED[state] > 1
        parent.active_children += is_up - was_up
        was_there, is_there = before != "over", state != "over"
        if member.lifetime == "with_parent":
            parent.dependent_count += is_there - was_there
            parent.active_dependents += is_up - was_up
        if was_there != is_there:
            for one in parent.path():
                one.descendant_count += is_there - was_there
            if is_there:
                parent.children[member.id] = member
            else:
                del parent.children[member.id]

    @staticmethod
    def _count_spawns(member: TreeNode, count: int) -> None:
        if member.parent is not None:
            for one in member.parent.path():
                one.spawns += count

    def _set_own_spent(self, member: TreeNode, own: Spending) -> None:
        before, member.own_spent = member.own_spent, own
        if before != own:
            change = Spending(
                own.turns - before.turns,
                own.tokens - before.tokens,
                own.cost - before.cost,
                own.wall_seconds - before.wall_seconds,
            )
            self._spend(member, change)

    @staticmethod
    def _spend(member: TreeNode, change: Spending) -> None:
        for one in member.path():
            one.spent += change

    def _start_turn(
        self,
        session_id: SessionId,
        member: TreeNode | None,
        turn: TurnId,
        clock: Callable[[], float],
    ) -> None:
        before = self.turn_slots.get(session_id)
        if before is None or before.turn != turn:
            run = TurnSlot(turn, clock())
            run.previous = before
            self.turn_slots[session_id] = run
            if member is not None:
                self._count_replaced(member, before, run)

    def _undo_reservation(
        self, session: SessionState, member: TreeNode | None, run: TurnSlot
    ) -> TurnSlot:
        """Restore the previous turn slot if the reserved turn is not the committed one."""
        before, run.previous = run.previous, None
        written = session.turn.id if session.turn is not None else None
        if before is None or run.turn == written:
            return run
        before.previous = None
        self.turn_slots[session.id] = before
        if member is not None:
            self._count_replaced(member, run, before)
        return before

    def _count_replaced(self, member: TreeNode, before: TurnSlot | None, run: TurnSlot) -> None:
        if before is not None and before.turn is not None:
            self._count_running(member, before, -1)
        if run.turn is not None:
            self._count_running(member, run, 1)

    def _release_turn_slot(self, session_id: SessionId) -> None:
        run = self.turn_slots.pop(session_id, None)
        member = self._nodes.get(session_id)
        if run is not None and run.turn is not None and member is not None:
            self._count_running(member, run, -1)

    @staticmethod
    def _count_running(member: TreeNode, run: TurnSlot, count: int) -> None:
        for one in member.path():
            one.running_turns += count
            one.started_sum += count * run.started
