"""The session tree, run at random against a model that counts everything again."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator

import attrs

from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.limits import Lifetime, Limits, Lineage
from supervisor.core.state import (
    OpenTurn,
    PendingInput,
    Phase,
    SessionState,
    Spending,
    TreeState,
    Usage,
)
from supervisor.core.tree.node import TreeNode, node_state
from supervisor.core.tree.tree import SessionTree

SEEDS = range(120)
LENGTH = 60
DEPTH = 5
OPEN = (Phase.RUNNING, Phase.INTERRUPTING)
SPAWN_INPUT = PendingInput(InputId("in_1"), 1, "go", "queue", "parent", 0.0, generation=0)


@attrs.define(eq=False)
class Node:
    """A session in the model; `row` is None while it is only admitted."""

    id: SessionId
    parent: Node | None
    lifetime: Lifetime = "with_parent"
    row: SessionState | None = None
    turn: TurnId | None = None
    began: float = 0.0
    promised: bool = False
    reported: Usage = Usage()
    is_deleted: bool = False
    below: list[Node] = attrs.field(factory=list)

    @property
    def state(self) -> str:
        return "admitted" if self.row is None else node_state(self.row)

    def all_below(self) -> Iterator[Node]:
        for node in self.below:
            yield node
            yield from node.all_below()

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def own(self) -> Spending:
        if self.row is None:
            return Spending()
        if self.row.turn is None:
            return self.row.spending
        said, written = self.reported, self.row.turn.usage
        tokens = said.input_tokens - written.input_tokens
        return self.row.spending + Spending(0, max(0, tokens), max(0.0, said.cost - written.cost))


def total(parts: Iterator[Spending]) -> Spending:
    return functools.reduce(Spending.__add__, parts, Spending())


class Game:
    """One tree and one model that get the same calls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ledger = SessionTree()
        self.nodes: dict[SessionId, Node] = {}
        self.now = 0.0
        self.count = 0

    # Moves --------------------------------------------------------------------------------

    def move(self) -> None:
        self.now += self.random.choice([0.0, 1.0, 7.0])
        moves: list[Callable[[], None]] = [
            self.create,
            *[self.admit] * 3,
            self.withdraw,
            self.begin,
            *[self.write] * 4,
            self.undo,
            *[self.report] * 2,
            self.promise,
            self.delete,
        ]
        self.random.choice(moves)()

    def pick(self, fits: Callable[[Node], bool]) -> Node | None:
        found = [node for node in self.nodes.values() if not node.is_deleted and fits(node)]
        return self.random.choice(found) if found else None

    def new_id(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def create(self) -> None:
        node = Node(SessionId(self.new_id("s")), None)
        self.nodes[node.id] = node
        node.row = SessionState(id=node.id, agent_name="agent", phase=Phase.IDLE, limits=Limits())
        self.ledger.add(node.row)
        self.ledger.apply(node.row, lambda: self.now)

    def admit(self) -> None:
        parent = self.pick(lambda node: node.row is not None and node.depth < DEPTH)
        if parent is not None:
            lifetime: Lifetime = self.random.choice(["with_parent", "detached"])
            node = Node(SessionId(self.new_id("s")), parent, lifetime, promised=True)
            parent.below.append(node)
            self.nodes[node.id] = node
            self.ledger.admit(node.id, self.page(parent), lifetime)

    def withdraw(self) -> None:
        node = self.pick(lambda node: node.row is None and not node.below)
        if node is not None and node.parent is not None:
            node.parent.below.remove(node)
            del self.nodes[node.id]
            self.ledger.withdraw(node.id)
            self.ledger.withdraw(node.id)  # released once

    def begin(self) -> None:
        node = self.pick(lambda node: node.row is None)
        if node is not None and node.parent is not None:
            lineage = Lineage(parent=node.parent.id, depth=node.depth, lifetime=node.lifetime)
            row = SessionState(
                id=node.id, agent_name="agent", lineage=lineage, inputs=(SPAWN_INPUT,)
            )
            self.settle(node, row)

    def write(self) -> None:
        node = self.pick(lambda node: node.row is not None)
        if node is not None and node.row is not None:
            self.settle(node, self.next_row(node, node.row))

    def undo(self) -> None:
        """Reserve a row whose commit then fails."""
        node = self.pick(lambda node: node.row is not None)
        # A session with a turn, or a reservation, does lose something: see the last tests.
        if node is None or node.row is None or node.turn is not None or node.promised:
            return
        self.ledger.reserve(self.next_row(node, node.row), lambda: self.now)
        self.check_room()
        self.settle(node, node.row, foreseen=False)

    def settle(self, node: Node, row: SessionState, *, foreseen: bool = True) -> None:
        if foreseen:
            self.ledger.reserve(row, lambda: self.now)
            self.ledger.reserve(row, lambda: self.now)
        self.ledger.apply(row, lambda: self.now)
        node.row = row
        if row.turn is None:
            wants_one = row.phase in (Phase.STARTING, Phase.IDLE) and row.inputs != ()
            node.promised = node.promised and wants_one
            node.turn = None
        elif node.turn != row.turn.id:
            node.turn, node.began, node.promised = row.turn.id, self.now, False
            node.reported = Usage()

    def report(self) -> None:
        node = self.pick(lambda node: node.turn is not None)
        usage = Usage(self.random.randint(0, 9), 0, float(self.random.randint(0, 3)))
        if node is not None and node.turn is not None:
            node.reported += usage
            self.ledger.report_usage(node.id, node.turn, usage)
            self.ledger.report_usage(
                node.id, TurnId("turn_of_old"), usage
            )  # late, and without effect

    def promise(self) -> None:
        node = self.pick(lambda node: node.row is not None and node.row.phase is Phase.IDLE)
        if node is not None:
            node.promised = True
            self.ledger.reserve_turn(node.id)
            self.ledger.reserve_turn(node.id)

    def delete(self) -> None:
        node = self.pick(lambda node: node.state == "over" and _is_last(node))
        if node is not None and self.random.random() < 0.5:
            self.pay_for(node)
            node.is_deleted, node.promised = True, False
            self.ledger.delete(node.id)
            self.ledger.delete(node.id)

    def pay_for(self, node: Node) -> None:
        """Return what the next ancestor records before the session is deleted."""
        page = self.page(node)
        above = node.parent
        while above is not None and above.is_deleted:
            above = above.parent
        if above is not None and above.row is not None:
            family = above.row.family
            deleted = family.deleted + page.spent
            spawns = family.deleted_spawns + page.spawns + 1
            above.row = above.row.changed(family=TreeState(deleted=deleted, deleted_spawns=spawns))

    def next_row(self, node: Node, row: SessionState) -> SessionState:
        """Return a row that might follow this one."""
        phase = self.random.choice(list(Phase))
        turn, usage, turns, wall = row.turn, row.usage, row.turns, row.wall_seconds
        if turn is not None:
            used = Usage(min(node.reported.input_tokens - turn.usage.input_tokens, 5), 0, 0.0)
            usage, turn = usage + used, turn.changed(usage=turn.usage + used)
        if phase not in OPEN:
            wall += self.now - node.began if turn is not None else 0.0
            turn = None
        elif turn is None or self.random.random() < 0.2:
            turn = OpenTurn(TurnId(self.new_id("turn")), InputId("in"), "user", self.now)
            turns += 1
        inputs = self.random.choice([(), (SPAWN_INPUT,)])
        row = row.changed(phase=phase, turn=turn, inputs=inputs)
        return row.changed(usage=usage, turns=turns, wall_seconds=wall)

    # Invariants --------------------------------------------------------------------------

    def page(self, node: Node) -> TreeNode:
        page = self.ledger.find(node.id)
        assert page is not None
        return page

    def check(self) -> None:
        nodes = [node for node in self.nodes.values() if not node.is_deleted]
        for node in nodes:
            self.check_page(node, self.page(node))
        assert self.ledger.live == {node.id for node in nodes if node.state != "over"}
        turns = {node.id: node.turn for node in nodes if node.turn or node.promised}
        assert {one: run.turn for one, run in self.ledger.turn_slots.items()} == turns

    def check_page(self, node: Node, page: TreeNode) -> None:
        there = [one for one in node.below if one.state != "over"]
        ever = list(node.all_below())
        assert (page.state, page.depth) == (node.state, node.depth)
        assert set(page.children) == {one.id for one in there}
        assert page.active_children == sum(one.state != "suspended" for one in there)
        bound = [one for one in there if one.lifetime == "with_parent"]
        assert {one.id for one in page.dependents()} == {one.id for one in bound}
        assert page.dependent_count == len(bound)
        assert page.active_dependents == sum(one.state != "suspended" for one in bound)
        assert page.descendant_count == sum(one.state != "over" for one in ever)
        assert page.spawns == len(ever)
        assert page.own_spent == node.own
        assert page.spent == total(one.own for one in [node, *ever])
        running = [one for one in [node, *ever] if one.turn is not None]
        seconds = page.spent.wall_seconds + sum(self.now - one.began for one in running)
        assert page.running_turns == len(running)
        assert page.used("wall_seconds", self.now) == seconds
        assert [one.id for one in page.path()] == [one.id for one in _path(node)]

    def check_room(self) -> None:
        """Check that no session has fewer slots than it has before a commit."""
        for node in self.nodes.values():
            if not node.is_deleted:
                there = [one for one in node.below if one.state != "over"]
                assert self.page(node).active_children >= sum(
                    one.state != "suspended" for one in there
                )
                assert set(self.page(node).children) >= {one.id for one in there}
                assert node.state == "over" or node.id in self.ledger.live


def _is_last(node: Node) -> bool:
    return all(one.is_deleted for one in node.all_below())


def _path(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def everywhere(check: Callable[[Game], None]) -> Callable[[], None]:
    """Turn a check that must hold in every game into a test that names the failing seed."""

    @functools.wraps(check)
    def test() -> None:
        for seed in SEEDS:
            try:
                check(Game(seed))
            except AssertionError as problem:
                problem.add_note(f"in the game of seed {seed}")
                raise

    del test.__wrapped__  # pytest would ask for a fixture `game`
    return test


# Properties ------------------------------------------------------------------------------


@everywhere
def test_the_tree_equals_a_fresh_count(game: Game) -> None:
    for _ in range(LENGTH):
        game.move()
        game.check()


@everywhere
def test_a_row_applied_twice_counts_once(game: Game) -> None:
    for _ in range(LENGTH):
        game.move()
        for node in game.nodes.values():
            if node.row is not None and not node.is_deleted:
                game.settle(node, node.row)
    game.check()


@everywhere
def test_the_tree_from_stored_rows_equals_the_live_tree(game: Game) -> None:
    for _ in range(LENGTH):
        game.move()
    lived, game.ledger = game.ledger, SessionTree()
    stored = [node for node in game.nodes.values() if node.row and not node.is_deleted]

    for node in _parents_first(game.random, stored):
        assert node.row is not None
        game.ledger.add(node.row)
        game.ledger.apply(node.row, lambda: game.now)

    for node in stored:
        if all(one in stored or one.is_deleted for one in [*_path(node), *node.all_below()]):
            _assert_same(game.page(node), lived.find(node.id))


def _parents_first(chance: random.Random, nodes: list[Node]) -> Iterator[Node]:
    left = chance.sample(nodes, len(nodes))
    while left:
        node = next(one for one in left if one.parent not in left)
        left.remove(node)
        yield node


def _assert_same(page: TreeNode, lived: TreeNode | None) -> None:
    assert lived is not None
    for name in (
        "state",
        "active_children",
        "dependent_count",
        "active_dependents",
        "descendant_count",
        "spawns",
        "depth",
        "running_turns",
    ):
        assert getattr(page, name) == getattr(lived, name), name
    assert (set(page.children), page.limits) == (set(lived.children), lived.limits)
    assert page.spent.turns == lived.spent.turns
    # Usage that was reported and not committed is lost.
    assert page.spent.tokens <= lived.spent.tokens
