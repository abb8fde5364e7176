"""A supervisor tree under random commands and schedules, compared with a pure model.

Rules only collect commands. At the end all run in one simulation, and whenever every task is
blocked the tree must equal the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import hypothesis
import pytest
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from actors import ChildSpec, Crashed, Finished, GaveUp, GroupSpec, Ref, RestartPolicy, Stopped
from actors._cell import Cell
from actors._child import Child
from actors._restart import RestartKind, Strategy
from actors._supervisor import Supervisor
from actors.testing import settle, simulate

from .harness import Harness, open_harness
from .internals import cell_of, group_of
from .scripted_actor import Behaviour
from .tree_model import Node, Tree

WINDOW_SECONDS = 50.0
LONG_WAIT_SECONDS = 1_000.0
# More than the number of concurrent crashes, so no message is refused.
CAPACITY = 9
STATES = {"up": "running", "down": "restarting", "over": "stopped"}
ENDS: dict[str, type] = {
    "crashed": Crashed,
    "finished": Finished,
    "stopped": Stopped,
    "gave up": GaveUp,
}
# No sleep: when all tasks are blocked, every start and stop must be complete. No pause in on_stop:
# a crash whose group restarts during its clean-up does not count, as in OTP, so the number of
# crashes alone would not determine the result.
BRISK = Behaviour(start=("note", "pause"))

kinds = st.sampled_from(("permanent", "transient", "temporary"))
strategies = st.sampled_from(("one_for_one", "one_for_all", "rest_for_one"))
budgets = st.integers(0, 3)
# Index of a qualifying node when the command runs; hypothesis shrinks it towards the first.
picks = st.integers(0, 9)


@attrs.define(eq=False)
class TreeComparison:
    """The real tree and its model."""

    harness: Harness
    nursery: trio.Nursery
    watcher: Ref
    model: Tree = attrs.Factory(lambda: Tree("root", "permanent"))
    real: dict[Node, Child] = attrs.Factory(dict)
    _made: int = 0

    # Commands ---------------------------------------------------------------------------

    async def start_actor(self, kind: RestartKind, budget: int, *, waits: bool) -> None:
        node = Node(self._name(), kind, max_restarts=budget, waits=waits)
        policy = RestartPolicy(
            kind,
            max_restarts=budget,
            within_seconds=WINDOW_SECONDS,
            backoff_seconds=0.5 if waits else 0.0,
        )
        await self._in_quiet(
            lambda: self.harness.start(node.name, behaviour=BRISK, policy=policy, capacity=CAPACITY)
        )
        self._register(node, self.model)

    async def start_group(self, *levels: tuple[Strategy, list[RestartKind], int, bool]) -> None:
        """Start nested groups; the first level is the outermost."""
        tree, spec = self._describe(list(levels))
        await self._in_quiet(
            lambda: self.harness.start_group(tree.name, spec, within=self.harness.system)
        )
        self._register(tree, self.model)

    async def join(self, pick: int, kind: RestartKind) -> None:
        group = self._pick(pick, lambda node: isinstance(node, Tree) and node.state == "up")
        if isinstance(group, Tree):
            node = Node(self._name(), kind)
            supervisor = self.real[group]
            assert isinstance(supervisor, Supervisor)
            handle, policy = supervisor.handle, RestartPolicy(kind)
            await self._in_quiet(
                lambda: self.harness.start(
                    node.name, group=handle, behaviour=BRISK, policy=policy, capacity=CAPACITY
                )
            )
            self._register(node, group)

    async def end(self, pick: int, how: str, failures: int) -> None:
        """End one actor; its next `failures` starts fail."""
        node = self._pick(pick, lambda node: not isinstance(node, Tree) and node.state == "up")
        if node is None:
            return
        if not any(counter.waits for counter in self._counters(node)):
            node.failures_left = failures
            self.harness.oracle.by_cell[self._cell(node)].failures_left = failures
        self.harness.tell(self._cell(node).ref, "crash" if how == "crashed" else "quit")
        node.end("crashed" if how == "crashed" else "finished")
        await settle()

    async def crash_repeatedly(self, pick: int, crashes: int) -> None:
        """Crash several actors at once, in any order; their number determines the result."""
        group = self._pick(pick, self._survives(crashes))
        if not isinstance(group, Tree):
            return
        members = [node for node in group.members if _crashes_and_comes_back(node)]
        hit = [members[number % len(members)] for number in range(crashes)] if members else []
        for node in hit:
            # Not directly: the group may restart before the task of such an actor raises its crash,
            # which then does not count, as in OTP.
            self.harness.tell(self._cell(node).ref, "crash", may_be_direct=False)
        for node in hit:
            if group.state == "up":
                node.end("crashed")
        await settle()

    async def stop(self, pick: int) -> None:
        node = self._pick(pick, lambda node: node.state != "over")
        if node is None:
            return
        child = self.real[node]
        if isinstance(child, Supervisor):
            self.harness.oracle.stopped.add(child)
            child.handle.stop_nowait()
        else:
            self.harness.stop_nowait(self._cell(node).ref)
        node.be_over("stopped")
        await settle()

    async def wait_long(self) -> None:
        await trio.sleep(LONG_WAIT_SECONDS)
        await settle()
        self.model.wait_long()

    # Comparing --------------------------------------------------------------------------

    def compare(self) -> None:
        """Check that every node and every restart count equals the model."""
        self.harness.oracle.check_when_quiet()
        now = trio.current_time()
        for node in self.model.descendants():
            child = self.real[node]
            assert child.state == STATES[node.state], f"{node.name} is not {node.state}"
            if node.how is not None:
                assert isinstance(child.reason, ENDS[node.how]), f"{node.name} not {node.how}"
            if node.state == "up" and (isinstance(node, Tree) or node.above.is_root):
                spent = sum(now - at <= WINDOW_SECONDS for at in child.recent_restarts)
                assert spent == node.spent, f"{node.name} spent {spent}, not {node.spent}"

    # Picking and making -----------------------------------------------------------------

    def _pick(self, pick: int, qualifies: Callable[[Node], bool]) -> Node | None:
        candidates = [node for node in self.model.descendants() if qualifies(node)]
        return candidates[pick % len(candidates)] if candidates else None

    def _survives(self, crashes: int) -> Callable[[Node], bool]:
        """Return a filter: top groups may give up, inner groups need enough restarts left.

        A crash while its group gives up does not count, so the number of times an inner group
        gives up depends on the order.
        """

        def qualifies(node: Node) -> bool:
            if not isinstance(node, Tree) or node.state != "up" or node.waits:
                return False
            return node.above.is_root or node.spent + crashes <= node.max_restarts

        return qualifies

    def _counters(self, node: Node) -> list[Node]:
        """Return the nodes whose back-off an end of `node` may meet."""
        chain: list[Node] = [node]
        while not chain[-1].above.is_root:
            chain.append(chain[-1].above)
        return chain

    def _cell(self, node: Node) -> Cell:
        cell = self.real[node]
        assert isinstance(cell, Cell)
        return cell

    def _name(self) -> str:
        self._made += 1
        return f"n{self._made}"

    def _describe(
        self, levels: list[tuple[Strategy, list[RestartKind], int, bool]]
    ) -> tuple[Tree, GroupSpec]:
        (strategy, members, budget, waits), *inner = levels
        tree = Tree(self._name(), "permanent", max_restarts=budget, waits=waits, strategy=strategy)
        specs: list[ChildSpec] = []
        for member in members:
            node = Node(self._name(), member)
            tree.add(node)
            specs.append(
                self.harness.spec(node.name, behaviour=BRISK, kind=member, capacity=CAPACITY)
            )
        if inner:
            inner_tree, inner_spec = self._describe(inner)
            tree.members.insert(1, inner_tree)
            inner_tree.parent = tree
            specs.insert(1, self.harness.member(inner_tree.name, inner_spec))
        return tree, GroupSpec(
            specs,
            strategy=strategy,
            max_restarts=budget,
            within_seconds=WINDOW_SECONDS,
            backoff_seconds=0.5 if waits else 0.0,
        )

    async def _in_quiet(self, start: Callable[[], Any]) -> None:
        """Run a start without letting time pass."""
        self.nursery.start_soon(start)
        await settle()

    def _register(self, node: Node, parent: Tree) -> None:
        supervisor = group_of(self.harness.system) if parent.is_root else self.real[parent]
        assert isinstance(supervisor, Supervisor)
        child = supervisor.find(node.name)
        assert child is not None, f"{node.name} did not start"
        parent.add(node)
        if parent.is_root:
            node.kind = node.kind if not isinstance(node, Tree) else "temporary"
            self.harness.watch(self.watcher, child.handle)  # a watched GaveUp does not escalate
        self._link(node, child)

    def _link(self, node: Node, child: Child) -> None:
        self.real[node] = child
        if isinstance(node, Tree):
            assert isinstance(child, Supervisor)
            for member in node.members:
                found = child.find(member.name)
                assert found is not None
                self._link(member, found)


def _crashes_and_comes_back(node: Node) -> bool:
    return not isinstance(node, Tree) and node.state == "up" and node.kind != "temporary"


Command = Callable[[TreeComparison], Any]


async def run_commands(commands: list[Command]) -> None:
    async with open_harness() as harness:
        watcher = await harness.start("warden")
        assert watcher is not None
        assert cell_of(watcher).state == "running"
        async with trio.open_nursery() as nursery:
            tree = TreeComparison(harness, nursery, watcher)
            for command in commands:
                await command(tree)
                tree.compare()
    assert harness.escalated is None


class TreeMachine(RuleBasedStateMachine):
    """Collects commands; `teardown` runs them."""

    def __init__(self) -> None:
        super().__init__()
        self.seed = 0
        self.commands: list[Command] = []

    @initialize(seed=st.integers(0, 10_000))
    def choose_schedule(self, seed: int) -> None:
        self.seed = seed

    @rule(kind=kinds, budget=budgets, waits=st.booleans())
    def start_actor(self, kind: RestartKind, budget: int, *, waits: bool) -> None:
        self.commands.append(lambda tree: tree.start_actor(kind, budget, waits=waits))

    @rule(
        levels=st.lists(
            st.tuples(strategies, st.lists(kinds, min_size=1, max_size=3), budgets, st.booleans()),
            min_size=1,
            max_size=3,
        )
    )
    def start_group(self, levels: list[tuple[Strategy, list[RestartKind], int, bool]]) -> None:
        self.commands.append(lambda tree: tree.start_group(*levels))

    @rule(pick=picks, kind=kinds)
    def join(self, pick: int, kind: RestartKind) -> None:
        self.commands.append(lambda tree: tree.join(pick, kind))

    @rule(pick=picks, how=st.sampled_from(("crashed", "finished")), failures=st.integers(0, 4))
    def end(self, pick: int, how: str, failures: int) -> None:
        self.commands.append(lambda tree: tree.end(pick, how, failures))

    @rule(pick=picks, crashes=st.integers(2, 5))
    def crash_repeatedly(self, pick: int, crashes: int) -> None:
        self.commands.append(lambda tree: tree.crash_repeatedly(pick, crashes))

    @rule(pick=picks)
    def stop(self, pick: int) -> None:
        self.commands.append(lambda tree: tree.stop(pick))

    @rule()
    def wait_long(self) -> None:
        self.commands.append(lambda tree: tree.wait_long())

    def teardown(self) -> None:
        simulate(run_commands, self.commands, seed=self.seed, early_timeouts=True)


def test_a_tree_equals_its_model() -> None:
    run_state_machine_as_test(
        TreeMachine,
        settings=hypothesis.settings(
            max_examples=250, stateful_step_count=15, deadline=None, derandomize=True
        ),
    )


@pytest.mark.soak(per_piece=2)
@pytest.mark.parametrize("piece", range(4))
def test_a_tree_equals_its_model_in_a_long_run(
    piece: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("covered", "2500 examples")

    class SeededMachine(TreeMachine):
        pass

    run_state_machine_as_test(
        hypothesis.seed(piece)(SeededMachine),
        settings=hypothesis.settings(max_examples=2_500, stateful_step_count=25, deadline=None),
    )
