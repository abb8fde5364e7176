"""Oracle of trees: checks caps, budgets, ends, permissions and notifications at every commit.

Rule 1: only commits are trusted, as in `tests.simulation.oracle`.
Rule 2: the admission may count more than is written, because slots are taken before commits; never
        less, and never more than allowed. When every task is blocked both are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from supervisor import Phase, Record
from supervisor.core.facts import as_record
from supervisor.core.tree.node import TreeNode
from supervisor.handles.parts import Parts
from supervisor.store.port import Write
from tests.simulation.oracle import Oracle, SessionHistory

from .settled_tree import check_tree
from .tree_counts import ExpectedNode, Told, exhausted_budgets, is_close, widened

if TYPE_CHECKING:
    from .hook_faults import HookFaults

# The maximum of one usage report of an agent.
MAX_TOKENS: Final = 5
MAX_COST: Final = 0.5
# Records that are progress; agents report the rest, because text is recorded later.
PROGRESS: Final = frozenset(
    {
        "turn_started",
        "turn_ended",
        "tool_call",
        "tool_ended",
        "permission_asked",
        "permission_answered",
    }
)
ROUNDING_SECONDS: Final = 1e-6


@attrs.define(eq=False)
class TreeOracle(Oracle):
    """The sessions of one run and their tree."""

    parts: Parts | None = None
    nodes: dict[str, ExpectedNode] = attrs.Factory(dict)
    live: set[str] = attrs.Factory(set)
    running: set[str] = attrs.Factory(set)
    # True if writes were lost on purpose: the last output of agents may be lost too.
    had_store_faults: bool = False
    # Children that an agent waits for, with the start of the wait, by session.
    awaits: dict[str, list[tuple[str, float]]] = attrs.Factory(dict)
    # Times of progress by session, and the sessions reported as stalled since.
    progress: dict[str, list[float]] = attrs.Factory(dict)
    stalled: set[str] = attrs.Factory(set)
    # Notifications that agents have read.
    read: dict[str, list[tuple[str, str]]] = attrs.Factory(dict)
    # The hooks of this run, if there are any.
    hook_faults: HookFaults | None = None

    def inspect(self, parts: Parts) -> None:
        """Check the tree of the admission too from now on."""
        self.parts = parts

    # One commit -----------------------------------------------------------------------------

    def committed(self, write: Write) -> None:
        if self.parts is not None:
            few = self.parts.services.settings().max_running_turns < 100
            self.turns_are_scarce = few or self.parts.services.is_shutting_down
        super().committed(write)
        # The child first: the record of its parent in the same commit refers to it.
        for part in (write.linked_write, write):
            if part is not None:
                self._update_node(part, write)
        for part in (write, write.linked_write):
            if part is not None and part.session_id in self.nodes:
                self._check_node(self.nodes[part.session_id])
        self._check_process_caps()

    def _update_node(self, part: Write, whole: Write) -> None:
        history = self.history(part.session_id)
        row = history.row
        assert row is not None
        node = self.nodes.get(part.session_id)
        if node is None:
            node = self._add_node(history, part, whole)
            if self.hook_faults is not None:
                self.hook_faults.check_created(node, history)
        was_done = node.row.family.outcome is not None
        happened: list[Told] = []
        for record in part.records:
            self._check_record(node, history, as_record(record), happened)
        # An input finished while stopping is reported with the end.
        ends = row.phase in (Phase.STOPPING, Phase.STOPPED)
        if row.family.outcome is not None and not was_done and not ends:
            happened.append("done")
        node.became += happened
        node.update(row)
        if any(record.kind == "session_started" for record in part.records):
            self._check_reserved_turn(node, history)
        for members, belongs in ((self.live, node.is_live), (self.running, node.is_running)):
            if belongs:
                members.add(node.id)
            else:
                members.discard(node.id)

    def _add_node(self, history: SessionHistory, part: Write, whole: Write) -> ExpectedNode:
        row = history.row
        assert row is not None
        lineage = row.lineage
        parent = self.nodes.get(lineage.parent) if lineage.parent is not None else None
        node = self.nodes[history.id] = ExpectedNode(history.id, parent, row)
        node.begin()
        if lineage.parent is None:
            return node
        node.became.append("started")
        if parent is None or parent.is_deleted:
            history.check(holds=False, message="it began below a session that does not exist")
            return node
        said = [
            record
            for record in whole.records
            if record.kind == "child_started" and record.body["child"] == history.id
        ]
        together = part is whole.linked_write and whole.session_id == lineage.parent
        history.check(together and len(said) == 1, "it began without a record of its parent")
        history.check(
            parent.row.phase not in (Phase.STOPPED, Phase.STOPPING),
            f"it began below a session that is {parent.row.phase}",
        )
        history.check(
            lineage.depth == parent.row.lineage.depth + 1
            and lineage.root == (parent.row.lineage.root or parent.id),
            "its depth or root does not match its parent",
        )
        history.check(
            lineage.depth <= parent.rules.max_depth,
            f"its depth is {lineage.depth}, the maximum is {parent.rules.max_depth}",
        )
        excess = [*widened(parent.row.permissions, row.permissions)]
        history.check(not excess, f"it has more permissions than its parent: {excess}")
        above = parent.row.workspace
        inside = above is None or f"{row.workspace}/".startswith(f"{above}/")
        history.check(inside, f"its workspace {row.workspace} is outside of {above}")
        return node

    def _check_record(
        self, node: ExpectedNode, history: SessionHistory, record: Record, happened: list[Told]
    ) -> None:
        match record.kind:
            case "session_stopped":
                happened.append("over")
                self._check_end(node, history)
            case "session_resumed" if not record.body["woken"]:
                happened.append("started")
                node.restarted_at.clear()  # a resume resets the restart limit
                self._check_resume(node, history)
            case "child_started" | "child_ended":
                self._check_notification(history, record)
            case "agent_restarting":
                self._check_restart(node, history, record)
            case "stalled":
                self._check_stall(history, record)
            case "progress_resumed" | "turn_ended":
                self.stalled.discard(history.id)
        if record.kind in PROGRESS:
            self._progressed(history.id, record.at)
        if self.hook_faults is not None:
            self.hook_faults.check_record(node, history, record)

    # Checks of records -----------------------------------------------------------------------

    def _check_end(self, node: ExpectedNode, history: SessionHistory) -> None:
        left = [child.id for child in node.children.values() if child.is_live]
        left = [one for one in left if self.nodes[one].ends_with_parent]
        history.check(not left, f"it ended before its children {left}")
        if history.cause == "parent_stopped" and node.parent is not None:
            siblings = [one for one in node.parent.children.values() if one.ends_with_parent]
            younger = siblings[siblings.index(node) + 1 :] if node.is_on_record else []
            first = [one.id for one in younger if one.is_live and one.is_on_record]
            history.check(
                not first or self.had_store_faults, f"it ended before the younger {first}"
            )

    def _check_resume(self, node: ExpectedNode, history: SessionHistory) -> None:
        node.is_on_record = False
        if node.ends_with_parent:
            assert node.parent is not None
            history.check(
                node.parent.is_live and node.parent.row.phase is not Phase.STOPPING,
                "it resumed after its parent stopped",
            )
        spent = [*self._exhausted_above(node)]
        history.check(not spent, f"it resumed with exhausted budgets {spent}")

    def _check_notification(self, history: SessionHistory, record: Record) -> None:
        child = self.nodes.get(record.body["child"])
        if child is None or child.parent is None or child.parent is not self.nodes.get(history.id):
            history.check(
                holds=False,
                message=f"it was notified of {record.body['child']}, which is not its child",
            )
            return
        if record.kind == "child_started":
            child.told.append("started")
            if child.parent.row.stopping is None:  # otherwise the stop order was fixed before
                child.mark_youngest()
        else:
            child.told.append("done" if record.body["reason"] is None else "over")
        became = child.became[: len(child.told)]
        history.check(
            child.told == became, f"{child.id}: notifications {child.told}, expected {became}"
        )

    def _check_reserved_turn(self, node: ExpectedNode, history: SessionHistory) -> None:
        """Check that a new child does not queue for the turn slot reserved at its admission."""
        row = node.row
        record_wait = row.phase is Phase.IDLE and bool(row.inputs) and row.zombie is None
        leaves = self.parts is not None and self.parts.services.is_shutting_down
        came_back = "over" in node.became  # the reservation is for the first start only
        if node.parent is not None and not history.begun and not leaves and not came_back:
            history.check(not record_wait, "it has a reserved turn slot and waits for one")

    def _check_restart(self, node: ExpectedNode, history: SessionHistory, record: Record) -> None:
        history.check(history.cause is None, "its agent was restarted after a stop request")
        rule = node.row.terms.restart
        # When the agent reported its end: handled late, that is before the time of the record.
        reported_at = record.body["recent"][-1]
        history.check(reported_at <= record.at, "its agent restarted before it had ended")
        node.restarted_at.append(reported_at)
        recent = [at for at in node.restarted_at if reported_at - at <= rule.within_seconds]
        history.check(
            rule.policy != "never" and len(recent) <= rule.max_restarts,
            f"its agent was restarted {len(recent)} times, {rule.max_restarts} are allowed within"
            f" {rule.within_seconds} s: at {recent}",
        )

    def _check_stall(self, history: SessionHistory, record: Record) -> None:
        row = history.row
        assert row is not None
        history.check(history.id not in self.stalled, "it was reported as stalled twice")
        self.stalled.add(history.id)
        history.check(
            not history.asked, "it was reported as stalled while a permission request is pending"
        )
        if self.hook_faults is not None:
            return  # an action counts as progress only after its hooks allow it
        terms = row.terms
        limit = terms.tool_stalled_after_seconds if history.calls else terms.stalled_after_seconds
        silent = record.at - self._last_progress(history.id, record.at, set())
        history.check(
            silent >= limit - ROUNDING_SECONDS, f"stalled after {silent:g} s of {limit:g}"
        )

    def _last_progress(self, session_id: str, now: float, seen: set[str]) -> float:
        seen.add(session_id)
        if session_id in self.histories and self.histories[session_id].asked:
            return now
        # Later progress came while the commit was pending.
        last = max((at for at in self.progress.get(session_id, ()) if at < now), default=-1.0)
        # A wait that began later was not considered.
        for other, since in self.awaits.get(session_id, ()):
            if other not in seen and since < now:
                last = max(last, self._last_progress(other, now, seen))
        return last

    # Checks after every commit --------------------------------------------------------------

    def _check_node(self, node: ExpectedNode) -> None:
        if node.is_live and node.ends_with_parent:
            assert node.parent is not None
            self.check(node.parent.is_live, f"{node.id} is active without {node.parent.id}")
        for one in node.path():
            self._check_counts(one)
        if self._is_open:
            for member in self._tree_path(node):
                self._check_tree_node(member)

    def _check_counts(self, node: ExpectedNode) -> None:
        rules = node.rules
        self._at_most(f"{node.id}: children", node.up, rules.max_children)
        limits = node.row.limits
        if limits is None:
            return
        self._at_most(f"{node.id}: descendants", node.descendants, limits.max_descendants)
        self._at_most(f"{node.id}: spawns", node.spawns, limits.max_spawns)
        if limits.turns is not None:
            self._at_most(f"{node.id}: turns", node.spent.turns, limits.turns)
        # Agents in this process are counted as they report, so at most one report may exceed the
        # budget, however many run.
        for budget, most in (("tokens", MAX_TOKENS), ("cost", MAX_COST)):
            allowed = getattr(limits, budget)
            if allowed is not None:
                spent = getattr(node.spent, budget)
                self._at_most(f"{node.id}: {budget}", spent, allowed + most)

    def _check_process_caps(self) -> None:
        if not self._is_open:
            return
        assert self.parts is not None
        settings, tree = self.parts.services.settings(), self.parts.admission.tree
        for what, written, kept, allowed in (
            ("sessions", self.live, set(tree.live), settings.max_sessions),
            ("running turns", self.running, set(tree.turn_slots), settings.max_running_turns),
        ):
            self._at_most(f"{what} by rows", len(written), allowed)
            self._at_most(f"{what} in the admission", len(kept), allowed)
            unknown = written - kept
            self.check(not unknown, f"{what} missing in the admission: {sorted(unknown)}")

    @property
    def _is_open(self) -> bool:
        """True while the admission is in use."""
        return self.parts is not None and not self.parts.services.is_closed

    def _tree_path(self, node: ExpectedNode) -> Iterator[TreeNode]:
        assert self.parts is not None
        member = self.parts.admission.tree.find(node.row.id)
        if member is not None:
            yield from member.path()

    def _check_tree_node(self, member: TreeNode) -> None:
        node = self.nodes.get(member.id)
        limits = member.limits
        self._at_most(
            f"{member.id}: child slots",
            member.active_children,
            member.effective_limits.max_children,
        )
        if limits is not None:
            self._at_most(
                f"{member.id}: descendant slots", member.descendant_count, limits.max_descendants
            )
            self._at_most(f"{member.id}: reserved spawns", member.spawns, limits.max_spawns)
        if node is not None:
            short = [
                name
                for name, mine, theirs in (
                    ("children", node.up, member.active_children),
                    ("descendants", node.descendants, member.descendant_count),
                    ("spawns", node.spawns, member.spawns),
                )
                if mine > theirs
            ]
            self.check(not short, f"{member.id}: the admission counts too few {short}")

    def _at_most(self, what: str, used: float, allowed: float) -> None:
        self.check(used <= allowed, f"{what}: {used:g} of {allowed:g}")

    def _exhausted_above(self, node: ExpectedNode) -> Iterator[str]:
        for one in node.path():
            yield from (f"{one.id}: {budget}" for budget in exhausted_budgets(one))

    def deleted(self, session_id: str) -> None:
        node = self.nodes.get(session_id)
        if node is not None:
            history = self.history(session_id)
            node.go()
            self.live.discard(session_id)
            self.running.discard(session_id)
            left = [one.id for one in node.children.values() if one.is_live]
            left = [one for one in left if self.nodes[one].ends_with_parent]
            history.check(not left, f"it was deleted before its children {left}")
        super().deleted(session_id)

    # From agents ----------------------------------------------------------------------------

    def record_progress(self, session_id: str) -> None:
        """Record that an agent produces output in this step."""
        if self.parts is not None:
            self._progressed(session_id, self.parts.services.clock.now())

    @contextmanager
    def record_wait(self, session_id: str, child: str) -> Iterator[None]:
        """Record that an agent waits for a child; it is not silent meanwhile."""
        assert self.parts is not None
        awaits = self.awaits.setdefault(session_id, [])
        awaits.append(one := (child, self.parts.services.clock.now()))
        try:
            yield
        finally:
            awaits.remove(one)
            self.record_progress(session_id)

    def _progressed(self, session_id: str, at: float) -> None:
        self.progress.setdefault(session_id, []).append(at)

    def check_news_read(self, session_id: str, kind: str, child: str) -> None:
        """Check that an agent reads each notification once, in the order of the records."""
        read = self.read.setdefault(session_id, [])
        read.append((kind, child))
        if session_id in self.histories and not self.had_store_faults:
            records = self.histories[session_id].records
            news = [
                (record.kind, record.body["child"])
                for record in records
                if record.kind in ("child_started", "child_ended")
            ]
            self.check(
                read == news[: len(read)], f"{session_id}: its agent read {read[-3:]} of {news}"
            )

    # When all is settled --------------------------------------------------------------------

    def check_settled(self) -> None:
        """Check the settled state: no session waits for ever."""
        assert self.parts is not None
        for node in self.nodes.values():
            mine, anew = node.counts, node.recount()
            same = mine[:4] == anew[:4] and is_close(mine[4], anew[4])
            self.check(same, f"{node.id}: counted {mine}, recounted {anew}")
            if not node.is_deleted:
                self._check_node_settled(node)
        check_tree(self)
        if self.hook_faults is not None:
            self.hook_faults.check_settled()

    def _check_node_settled(self, node: ExpectedNode) -> None:
        row = node.row
        rests = row.phase in (Phase.IDLE, Phase.SUSPENDED, Phase.STOPPED)
        self.check(rests, f"{node.id} is {row.phase} for ever")
        assert self.parts is not None
        expires_at = row.lineage.expires_at
        late = expires_at is not None and expires_at < self.parts.services.clock.now()
        self.check(not late or not node.is_live, f"{node.id} is active after its expiry")
        free = row.zombie is None
        if free and row.phase is Phase.IDLE:
            self.check(not row.inputs, f"{node.id} is idle for ever, with inputs queued")
        if free and row.phase is Phase.SUSPENDED and row.inputs:
            parent = node.parent
            full = parent is not None and parent.up >= parent.rules.max_children
            self.check(full, f"{node.id} is suspended for ever, with inputs queued")
        if node.parent is not None and not node.parent.is_deleted:
            # An archived parent is read-only, also for notifications.
            deaf = node.parent.row.archived and node.told == node.became[: len(node.told)]
            self.check(
                deaf or node.told == node.became,
                f"{node.id}: final notifications {node.told}, expected {node.became}",
            )
