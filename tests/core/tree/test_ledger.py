"""The ledger, played at random against one that counts everything anew at every step."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator

import attrs

from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.limits import Limits
from supervisor.core.session import (
    Family,
    Lifetime,
    Lineage,
    Phase,
    Session,
    Spending,
    Turn,
    Usage,
    Waiting,
)
from supervisor.core.tree.ledger import Ledger
from supervisor.core.tree.member import Member, standing_of

SEEDS = range(120)
LENGTH = 60
DEPTH = 5
OPEN = (Phase.RUNNING, Phase.INTERRUPTING)
ERRAND = Waiting(InputId("in_1"), 1, "go", "queue", "parent", 0.0, generation=0)


@attrs.define(eq=False)
class Node:
    """A session as the model knows it; `row` is None while it is only admitted."""

    id: SessionId
    parent: Node | None
    lifetime: Lifetime = "with_parent"
    row: Session | None = None
    turn: TurnId | None = None
    began: float = 0.0
    promised: bool = False
    reported: Usage = Usage()
    is_deleted: bool = False
    below: list[Node] = attrs.field(factory=list)

    @property
    def standing(self) -> str:
        return "admitted" if self.row is None else standing_of(self.row)

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
    """One ledger and one model, told the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ledger = Ledger()
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
        node.row = Session(id=node.id, agent_name="agent", phase=Phase.IDLE, limits=Limits())
        self.ledger.enter(node.row)
        self.ledger.settle(node.row, self.now)

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
            self.ledger.withdraw(node.id)  # given back once

    def begin(self) -> None:
        node = self.pick(lambda node: node.row is None)
        if node is not None and node.parent is not None:
            lineage = Lineage(parent=node.parent.id, depth=node.depth, lifetime=node.lifetime)
            row = Session(id=node.id, agent_name="agent", lineage=lineage, inputs=(ERRAND,))
            self.settle(node, row)

    def write(self) -> None:
        node = self.pick(lambda node: node.row is not None)
        if node is not None and node.row is not None:
            self.settle(node, self.next_row(node, node.row))

    def undo(self) -> None:
        """A row that was about to be written, and was not."""
        node = self.pick(lambda node: node.row is not None)
        # Who has a turn, or a place for one, does lose something: see the last tests.
        if node is None or node.row is None or node.turn is not None or node.promised:
            return
        self.ledger.foresee(self.next_row(node, node.row), self.now)
        self.check_room()
        self.settle(node, node.row, foreseen=False)

    def settle(self, node: Node, row: Session, *, foreseen: bool = True) -> None:
        if foreseen:
            self.ledger.foresee(row, self.now)
            self.ledger.foresee(row, self.now)
        self.ledger.settle(row, self.now)
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
            self.ledger.report(node.id, node.turn, usage)
            self.ledger.report(node.id, TurnId("turn_of_old"), usage)  # late, and for nothing

    def promise(self) -> None:
        node = self.pick(lambda node: node.row is not None and node.row.phase is Phase.IDLE)
        if node is not None:
            node.promised = True
            self.ledger.promise(node.id)
            self.ledger.promise(node.id)

    def delete(self) -> None:
        node = self.pick(lambda node: node.standing == "over" and _is_last(node))
        if node is not None and self.random.random() < 0.5:
            self.pay_for(node)
            node.is_deleted, node.promised = True, False
            self.ledger.delete(node.id)
            self.ledger.delete(node.id)

    def pay_for(self, node: Node) -> None:
        """What the next above it writes down before nothing is left of it."""
        page = self.page(node)
        above = node.parent
        while above is not None and above.is_deleted:
            above = above.parent
        if above is not None and above.row is not None:
            family = above.row.family
            deleted = family.deleted + page.spent
            spawns = family.deleted_spawns + page.spawns + 1
            above.row = above.row.changed(family=Family(deleted=deleted, deleted_spawns=spawns))

    def next_row(self, node: Node, row: Session) -> Session:
        """Some row that might come after this one."""
        phase = self.random.choice(list(Phase))
        turn, usage, turns, wall = row.turn, row.usage, row.turns, row.wall_seconds
        if turn is not None:
            used = Usage(min(node.reported.input_tokens - turn.usage.input_tokens, 5), 0, 0.0)
            usage, turn = usage + used, attrs.evolve(turn, usage=turn.usage + used)
        if phase not in OPEN:
            wall += self.now - node.began if turn is not None else 0.0
            turn = None
        elif turn is None or self.random.random() < 0.2:
            turn = Turn(TurnId(self.new_id("turn")), InputId("in"), "user", self.now)
            turns += 1
        inputs = self.random.choice([(), (ERRAND,)])
        row = row.changed(phase=phase, turn=turn, inputs=inputs)
        return row.changed(usage=usage, turns=turns, wall_seconds=wall)

    # What must be so ----------------------------------------------------------------------

    def page(self, node: Node) -> Member:
        page = self.ledger.find(node.id)
        assert page is not None
        return page

    def check(self) -> None:
        nodes = [node for node in self.nodes.values() if not node.is_deleted]
        for node in nodes:
            self.check_page(node, self.page(node))
        assert self.ledger.live == {node.id for node in nodes if node.standing != "over"}
        turns = {node.id: node.turn for node in nodes if node.turn or node.promised}
        assert {one: run.turn for one, run in self.ledger.turns.items()} == turns

    def check_page(self, node: Node, page: Member) -> None:
        there = [one for one in node.below if one.standing != "over"]
        ever = list(node.all_below())
        assert (page.standing, page.depth) == (node.standing, node.depth)
        assert set(page.children) == {one.id for one in there}
        assert page.up == sum(one.standing != "suspended" for one in there)
        bound = [one for one in there if one.lifetime == "with_parent"]
        assert {one.id for one in page.dependents()} == {one.id for one in bound}
        assert page.bound == len(bound)
        assert page.company == sum(one.standing != "suspended" for one in bound)
        assert page.descendants == sum(one.standing != "over" for one in ever)
        assert page.spawns == len(ever)
        assert page.own == node.own
        assert page.spent == total(one.own for one in [node, *ever])
        running = [one for one in [node, *ever] if one.turn is not None]
        seconds = page.spent.wall_seconds + sum(self.now - one.began for one in running)
        assert page.running == len(running)
        assert page.used("wall_seconds", self.now) == seconds
        assert [one.id for one in page.path()] == [one.id for one in _path(node)]

    def check_room(self) -> None:
        """Before a commit nobody has less room than it has."""
        for node in self.nodes.values():
            if not node.is_deleted:
                there = [one for one in node.below if one.standing != "over"]
                assert self.page(node).up >= sum(one.standing != "suspended" for one in there)
                assert set(self.page(node).children) >= {one.id for one in there}
                assert node.standing == "over" or node.id in self.ledger.live


def _is_last(node: Node) -> bool:
    return all(one.is_deleted for one in node.all_below())


def _path(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def everywhere(check: Callable[[Game], None]) -> Callable[[], None]:
    """Make one test of a check that must hold in every game; it names the seed that failed."""

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


# Games ------------------------------------------------------------------------------------


@everywhere
def test_what_the_ledger_says_is_what_counting_anew_says(game: Game) -> None:
    for _ in range(LENGTH):
        game.move()
        game.check()


@everywhere
def test_a_row_that_is_said_twice_counts_once(game: Game) -> None:
    for _ in range(LENGTH):
        game.move()
        for node in game.nodes.values():
            if node.row is not None and not node.is_deleted:
                game.settle(node, node.row)
    game.check()


@everywhere
def test_rows_that_are_read_give_the_ledger_that_was_lived_through(game: Game) -> None:
    for _ in range(LENGTH):
        game.move()
    lived, game.ledger = game.ledger, Ledger()
    stored = [node for node in game.nodes.values() if node.row and not node.is_deleted]

    for node in _parents_first(game.random, stored):
        assert node.row is not None
        game.ledger.enter(node.row)
        game.ledger.settle(node.row, game.now)

    for node in stored:
        if all(one in stored or one.is_deleted for one in [*_path(node), *node.all_below()]):
            _assert_same(game.page(node), lived.find(node.id))


def _parents_first(chance: random.Random, nodes: list[Node]) -> Iterator[Node]:
    left = chance.sample(nodes, len(nodes))
    while left:
        node = next(one for one in left if one.parent not in left)
        left.remove(node)
        yield node


def _assert_same(page: Member, lived: Member | None) -> None:
    assert lived is not None
    for name in ("standing", "up", "bound", "company", "descendants", "spawns", "depth", "running"):
        assert getattr(page, name) == getattr(lived, name), name
    assert (set(page.children), page.limits) == (set(lived.children), lived.limits)
    assert page.spent.turns == lived.spent.turns
    # What was said and is not written yet is lost with whoever said it.
    assert page.spent.tokens <= lived.spent.tokens


# One promise at a time --------------------------------------------------------------------

ROOT = Session(id=SessionId("s_root"), agent_name="agent", phase=Phase.IDLE, limits=Limits())


def a_family(*names: str) -> tuple[Ledger, list[Member]]:
    """A root with children, all of them up; the members, the root's first."""
    ledger = Ledger()
    members = [ledger.enter(ROOT)]
    ledger.settle(ROOT, 0.0)
    for name in names:
        members.append(ledger.admit(SessionId(name), members[0], "with_parent"))
        ledger.settle(child(name, Phase.IDLE), 0.0)
    return ledger, members


def child(name: str, phase: Phase, turn: str | None = None, began: float = 0.0) -> Session:
    lineage = Lineage(parent=ROOT.id, root=ROOT.id, depth=1)
    opened = None if turn is None else Turn(TurnId(turn), ERRAND.id, "parent", began)
    return Session(
        id=SessionId(name), agent_name="agent", phase=phase, lineage=lineage, turn=opened
    )


def test_a_place_is_taken_before_the_row_is_written_and_given_back_after() -> None:
    ledger, (root, _) = a_family("a")
    ledger.settle(child("a", Phase.SUSPENDED), 0.0)

    ledger.foresee(child("a", Phase.IDLE), 0.0)
    assert root.up == 1
    ledger.settle(child("a", Phase.IDLE), 0.0)
    ledger.foresee(child("a", Phase.STOPPED), 0.0)
    assert root.up == 1
    ledger.settle(child("a", Phase.STOPPED), 0.0)
    assert (root.up, root.descendants, root.spawns) == (0, 0, 1)


def test_the_place_of_a_child_that_never_began_is_free_and_was_no_spawn() -> None:
    ledger, (root,) = a_family()
    ledger.admit(SessionId("a"), root, "with_parent")

    ledger.withdraw(SessionId("a"))
    ledger.withdraw(SessionId("a"))

    assert (root.up, root.descendants, root.spawns) == (0, 0, 0)
    assert (ledger.live, ledger.turns) == ({ROOT.id}, {})


def test_who_is_deleted_has_spent_what_it_has_spent() -> None:
    ledger, (root, _) = a_family("a")
    ledger.settle(child("a", Phase.STOPPED).changed(usage=Usage(70, 30), turns=2), 0.0)

    ledger.delete(SessionId("a"))

    assert root.spent == Spending(turns=2, tokens=100)
    assert (root.spawns, root.descendants) == (1, 0)


def test_who_outlives_a_deleted_parent_is_still_counted_further_up() -> None:
    ledger, (root, middle) = a_family("a")
    below = ledger.admit(SessionId("b"), middle, "with_parent")
    ledger.settle(child("a", Phase.STOPPED), 0.0)
    ledger.delete(SessionId("a"))
    assert root.descendants == 1

    ledger.settle(child("b", Phase.STOPPED).changed(usage=Usage(5, 0)), 0.0)

    assert (root.descendants, root.spawns, root.spent.tokens) == (0, 2, 5)
    assert [one.id for one in below.path()] == ["b", "a", "s_root"]


def test_what_was_deleted_below_a_child_is_counted_above_it_when_rows_are_read() -> None:
    ledger = Ledger()
    root = ledger.enter(ROOT)
    family = Family(deleted=Spending(1, 20, 0.5, 3.0), deleted_spawns=3)

    middle = ledger.enter(child("a", Phase.IDLE).changed(family=family))

    assert (root.spawns, middle.spawns) == (4, 3)
    assert root.spent == middle.spent == family.deleted


def test_what_was_written_by_a_turn_before_anyone_listened_is_not_taken_off() -> None:
    ledger, (root, _) = a_family("a")
    turn = Turn(TurnId("turn_1"), ERRAND.id, "parent", 0.0, usage=Usage(10, 5, 1.0))
    row = child("a", Phase.RUNNING).changed(turn=turn, usage=Usage(10, 5, 1.0), turns=1)

    ledger.settle(row, 0.0)

    assert root.spent == Spending(1, 15, 1.0)


def test_what_an_agent_says_counts_before_it_is_written_and_once() -> None:
    ledger, (root, _) = a_family("a")
    running = child("a", Phase.RUNNING, "turn_1")
    ledger.settle(running, 0.0)
    ledger.report(SessionId("a"), TurnId("turn_1"), Usage(10, 5, 1.0))
    assert (root.spent.tokens, root.spent.cost) == (15, 1.0)

    turn = Turn(TurnId("turn_1"), ERRAND.id, "parent", 0.0, usage=Usage(10, 5, 1.0))
    ledger.settle(running.changed(turn=turn, usage=Usage(10, 5, 1.0)), 0.0)

    assert (root.spent.tokens, root.spent.cost) == (15, 1.0)


def test_seconds_are_those_of_turns_that_run_and_nothing_else() -> None:
    ledger, (root, *_) = a_family("a", "b")
    ledger.settle(child("a", Phase.RUNNING, "turn_1"), 10.0)
    ledger.settle(child("b", Phase.RUNNING, "turn_2"), 12.0)
    assert root.used("wall_seconds", 20.0) == 18.0

    ledger.settle(child("a", Phase.IDLE).changed(wall_seconds=10.0), 20.0)

    assert root.used("wall_seconds", 30.0) == 28.0
    assert ledger.ran_seconds(SessionId("b"), 30.0) == 18.0


def test_children_end_the_youngest_first() -> None:
    ledger, (root, a, b, c) = a_family("a", "b", "c")
    root.stand_in_line()
    assert [one.has_younger() for one in (a, b, c)] == [True, True, False]

    ledger.foresee(child("c", Phase.STOPPED), 0.0)

    assert [one.has_younger() for one in (a, b)] == [True, False]


def test_a_younger_one_that_is_over_already_is_not_waited_for() -> None:
    ledger, (root, a, b) = a_family("a", "b")
    root.stand_in_line()
    ledger.settle(child("b", Phase.STOPPED), 0.0)

    assert not a.has_younger()
    assert not b.has_younger()


def test_detached_children_are_in_nobodys_line() -> None:
    ledger, (root, a) = a_family("a")
    ledger.admit(SessionId("b"), root, "detached")

    assert root.stand_in_line() == [a]
    assert not a.has_younger()


def test_a_detached_child_whose_end_was_not_written_is_in_nobodys_line_either() -> None:
    ledger, (root, a) = a_family("a")
    ledger.admit(SessionId("b"), root, "detached")
    root.stand_in_line()
    ledger.foresee(child("b", Phase.STOPPED), 0.0)
    ledger.settle(child("b", Phase.SUSPENDED), 0.0)

    assert root.line == [a]
    assert not a.has_younger()


def test_who_is_on_record_last_is_the_youngest_however_they_were_admitted() -> None:
    ledger, (root, a, b, c) = a_family("a", "b", "c")
    ledger.count_as_youngest(SessionId("a"))

    assert root.stand_in_line() == [b, c, a]


def test_who_could_not_be_read_has_its_children_when_it_is_back() -> None:
    ledger = Ledger()
    ledger.remember([ROOT.id])
    assert ledger.is_missed(ROOT.id)
    ledger.enter(child("a", Phase.IDLE))

    root = ledger.enter(ROOT)

    assert list(root.children) == ["a"]
    assert (root.up, root.descendants, root.spawns) == (1, 1, 1)
    assert not ledger.is_missed(ROOT.id)


def test_nobody_comes_to_be_a_child_by_being_counted() -> None:
    ledger, (root, *_) = a_family("a")
    ledger.settle(child("a", Phase.STOPPED), 0.0)
    ledger.count_as_youngest(SessionId("a"))
    ledger.count_as_youngest(root.id)

    assert list(root.children) == []


def test_a_root_that_is_read_while_it_stops_is_known_to_stop() -> None:
    ledger = Ledger()

    assert ledger.enter(ROOT.changed(phase=Phase.STOPPING)).is_stopping


def test_a_turn_that_goes_on_after_a_failed_commit_began_when_it_began() -> None:
    ledger, (root, _) = a_family("a")
    running = child("a", Phase.RUNNING, "turn_1")
    ledger.settle(running, 10.0)
    ledger.report(SessionId("a"), TurnId("turn_1"), Usage(10, 0))

    ledger.foresee(child("a", Phase.RUNNING, "turn_2"), 50.0)
    ledger.settle(running, 50.0)

    assert root.used("wall_seconds", 60.0) == 50.0
    assert root.spent.tokens == 10


def test_a_promised_turn_is_still_promised_after_a_failed_commit() -> None:
    ledger, (root,) = a_family()
    ledger.admit(SessionId("a"), root, "with_parent")
    starting = child("a", Phase.STARTING).changed(inputs=(ERRAND,))
    ledger.settle(starting, 0.0)

    ledger.foresee(child("a", Phase.RUNNING, "turn_1"), 5.0)
    ledger.settle(starting, 5.0)

    assert ledger.turns[SessionId("a")].turn is None
    assert root.running == 0


def test_who_waits_for_an_end_that_was_not_written_waits_on() -> None:
    ledger, (root, a, _) = a_family("a", "b")
    root.stand_in_line()
    ledger.foresee(child("b", Phase.STOPPED), 0.0)
    a.has_younger()

    ledger.settle(child("b", Phase.IDLE), 0.0)

    assert a.has_younger()


def test_who_is_deleted_in_the_moment_of_its_return_gives_its_place_back() -> None:
    ledger = Ledger()
    root = ledger.enter(Session(id=SessionId("s_root"), agent_name="agent", phase=Phase.IDLE))
    ledger.admit(SessionId("s_child"), root, "with_parent")

    ledger.delete(SessionId("s_child"))

    assert (root.up, root.bound, root.descendants, root.children) == (0, 0, 0, {})


def test_the_last_one_whose_end_was_not_written_is_still_to_end() -> None:
    ledger, (root, a) = a_family("a")
    root.stand_in_line()
    ledger.foresee(child("a", Phase.STOPPED), 0.0)
    assert root.last_in_line() is None

    ledger.settle(child("a", Phase.SUSPENDED), 0.0)

    assert a.is_in_line
    assert root.last_in_line() is a


def test_who_has_ended_is_to_end_no_more() -> None:
    ledger, (root, a) = a_family("a")
    root.stand_in_line()
    ledger.foresee(child("a", Phase.STOPPED), 0.0)
    root.last_in_line()

    ledger.settle(child("a", Phase.STOPPED), 0.0)

    assert not a.is_in_line
    assert root.last_in_line() is None
