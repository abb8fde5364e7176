"""Who may begin and who may come back: every limit, at exactly its number, with what to do next."""

# ruff: noqa: ANN401 - the words of a wish are passed on as they are

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import SpawnRefused
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.session import Lineage, Phase, Session, Turn, Usage
from supervisor.core.tree.admission import (
    Caps,
    Wish,
    admit,
    has_no_place,
    problem_of_return,
    refuse_if_too_many,
)
from supervisor.core.tree.ledger import Ledger
from supervisor.core.tree.member import Member

AT = 1000.0


class Office:
    """A ledger, a root that has been given something, and somebody who asks for more."""

    def __init__(self, **root: Any) -> None:
        self.ledger = Ledger()
        self.caps = Caps()
        self.count = 0
        self.now = 0.0
        row = Session(id=SessionId("s_root"), agent_name="agent", phase=Phase.IDLE)
        self.rows = {row.id: row}
        root.setdefault("limits", Limits())
        self.root = self.ledger.enter(row.changed(**root))
        self.write(self.root, **root)

    def write(self, member: Member, phase: Phase = Phase.IDLE, **changes: Any) -> None:
        row = self.rows[member.id].changed(phase=phase, **changes)
        self.rows[member.id] = row
        self.ledger.settle(row, self.now)

    def spawn(self, parent: Member | None = None, **wish: Any) -> Member:
        self.count += 1
        parent = parent or self.root
        child_id = SessionId(f"s_{self.count}")
        asked = Wish(agent="agent", **wish)
        child = admit(self.ledger, self.caps, parent, child_id, asked, at=AT, now=self.now)
        lineage = Lineage(
            parent=parent.id,
            depth=child.depth,
            lifetime=child.lifetime,
            expires_at=wish.get("expires_at"),
        )
        self.rows[child_id] = Session(
            id=child_id, agent_name="agent", lineage=lineage, limits=child.limits
        )
        return child

    def chain(self, length: int, **wish: Any) -> list[Member]:
        members = [self.root]
        for _ in range(length):
            members.append(self.spawn(members[-1], **wish))
        return members

    def refusal(self, parent: Member | None = None, **wish: Any) -> SpawnRefused:
        before = self.picture()
        with pytest.raises(SpawnRefused) as refusal:
            self.spawn(parent, **wish)
        assert self.picture() == before, "whoever is refused has taken no place"
        return refusal.value

    def picture(self) -> Any:
        members = [self.ledger.find(one) for one in self.rows]
        counts = [(one.up, one.descendants, one.spawns) for one in members if one is not None]
        return counts, set(self.ledger.live), set(self.ledger.turns)

    def problem(self, member: Member, at: float = AT) -> SpawnRefused | None:
        row = self.rows[member.id]
        return problem_of_return(self.ledger, self.caps, row, at=at, now=self.now)


def numbers(refusal: SpawnRefused | None) -> tuple[str, float | None, float | None]:
    assert refusal is not None
    assert refusal.hint
    return refusal.limit, refusal.used, refusal.allowed


def running(turn: str = "turn_1") -> dict[str, Any]:
    return {"phase": Phase.RUNNING, "turn": Turn(TurnId(turn), InputId("in_1"), "user", 0.0)}


# Numbers ----------------------------------------------------------------------------------


def test_a_tree_is_as_deep_as_its_limit_and_no_deeper() -> None:
    office = Office(limits=Limits(max_depth=2))
    *_, deepest = office.chain(2)
    assert deepest.depth == 2

    refusal = office.refusal(deepest)

    assert numbers(refusal) == ("max_depth", 2, 2)
    assert "higher up" in refusal.hint


def test_with_no_depth_at_all_nobody_has_children() -> None:
    assert numbers(Office(limits=Limits(max_depth=0)).refusal()) == ("max_depth", 0, 0)


def test_children_are_counted_while_they_are_up() -> None:
    office = Office(limits=Limits(max_children=2))
    first, _ = office.spawn(), office.spawn()
    refusal = office.refusal()
    assert numbers(refusal) == ("max_children", 2, 2)
    assert "limits.max_children" in refusal.hint

    office.write(first, Phase.SUSPENDED)
    office.spawn()

    assert numbers(office.refusal()) == ("max_children", 2, 2)


def test_descendants_are_counted_over_the_whole_tree_suspended_ones_too() -> None:
    office = Office(limits=Limits(max_descendants=3, max_depth=9))
    members = office.chain(3)
    for member in members[1:]:
        office.write(member, Phase.SUSPENDED)

    for parent in members:
        refusal = office.refusal(parent)
        assert numbers(refusal) == ("max_descendants", 3, 3)
        assert str(office.root.id) in str(refusal)

    office.write(members[3], Phase.STOPPED)
    office.spawn(members[1])


def test_spawns_are_counted_for_ever() -> None:
    office = Office(limits=Limits(max_spawns=3))
    for _ in range(3):
        office.write(office.spawn(), Phase.STOPPED)

    refusal = office.refusal()

    assert numbers(refusal) == ("max_spawns", 3, 3)
    assert refusal.hint == "raise limits.max_spawns"


def test_a_child_that_was_withdrawn_was_no_spawn() -> None:
    office = Office(limits=Limits(max_spawns=1))
    office.ledger.withdraw(office.spawn().id)

    office.spawn()


def test_the_process_has_so_many_sessions_and_no_more() -> None:
    office = Office()
    office.caps = Caps(max_sessions=2)
    child = office.spawn()

    assert numbers(office.refusal()) == ("max_sessions", 2, 2)
    with pytest.raises(SpawnRefused):
        refuse_if_too_many(office.ledger, office.caps, "agent")

    office.write(child, Phase.STOPPED)
    refuse_if_too_many(office.ledger, office.caps, "agent")


def test_a_child_needs_a_free_turn_for_its_errand() -> None:
    office = Office()
    office.caps = Caps(max_running_turns=2)
    office.write(office.root, **running())
    child = office.spawn()

    assert numbers(office.refusal()) == ("max_running_turns", 2, 2)

    office.write(child, Phase.STOPPED)
    office.spawn()


LIMITS = st.integers(0, 4)


@given(LIMITS, LIMITS, LIMITS, LIMITS, st.lists(st.tuples(st.integers(0, 9), st.booleans())))
def test_no_sequence_of_spawns_and_ends_gets_past_any_limit(
    depth: int, children: int, descendants: int, spawns: int, moves: list[tuple[int, bool]]
) -> None:
    limits = Limits(
        max_depth=depth, max_children=children, max_descendants=descendants, max_spawns=spawns
    )
    office = Office(limits=limits)
    members = [office.root]
    for which, ends in moves:
        member = members[which % len(members)]
        with suppress(SpawnRefused):
            if ends and member is not office.root:
                office.write(member, Phase.STOPPED)
            else:
                members.append(office.spawn(member))

    assert max(member.depth for member in members) <= depth
    assert max(member.up for member in members) <= children
    assert office.root.descendants <= descendants
    assert office.root.spawns <= spawns


# Limits of whom ---------------------------------------------------------------------------


def test_a_child_without_limits_goes_by_those_of_the_nearest_above() -> None:
    office = Office(limits=Limits(max_children=1, max_depth=9))
    _, _, grandchild = office.chain(2)
    office.spawn(grandchild)

    assert numbers(office.refusal(grandchild)) == ("max_children", 1, 1)


def test_limits_that_are_raised_are_raised_for_all_who_go_by_them() -> None:
    office = Office(limits=Limits(max_depth=1))
    _, child = office.chain(1)
    assert numbers(office.refusal(child)) == ("max_depth", 1, 1)

    office.write(office.root, limits=Limits(max_depth=2))

    assert office.spawn(child).depth == 2


def test_limits_that_are_lowered_hold_for_all_below_at_once() -> None:
    office = Office()
    _, child = office.chain(1, limits=Limits())

    office.write(office.root, limits=Limits(max_depth=1))

    assert numbers(office.refusal(child)) == ("max_depth", 1, 1)


def test_limits_that_are_given_are_no_wider_than_the_parents() -> None:
    office = Office(limits=Limits(max_depth=2, max_children=3, max_descendants=4, max_spawns=5))

    child = office.spawn(limits=Limits(max_depth=9, max_children=1, tokens=7))

    assert child.limits == Limits(
        max_depth=2, max_children=1, max_descendants=4, max_spawns=5, tokens=7
    )


def test_who_widens_its_own_limits_gets_no_further_than_those_above() -> None:
    office = Office(limits=Limits(max_depth=1, max_children=1))
    _, child = office.chain(1)

    office.write(child, limits=Limits(max_depth=9, max_children=9))

    assert numbers(office.refusal(child)) == ("max_depth", 1, 1)


def test_the_limits_of_everyone_above_hold_and_not_only_the_nearest() -> None:
    office = Office(limits=Limits(max_descendants=2, max_depth=9))
    child = office.spawn(limits=Limits(max_descendants=2))
    office.spawn(child)

    assert numbers(office.refusal(child)) == ("max_descendants", 2, 2)
    assert "s_root" in str(office.refusal(child))


# Budgets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "nearly", "spent"),
    [
        (Limits(turns=3), {"turns": 2}, {"turns": 3}),
        (Limits(tokens=100), {"usage": Usage(49, 50)}, {"usage": Usage(50, 50)}),
        (Limits(cost=2.0), {"usage": Usage(cost=1.5)}, {"usage": Usage(cost=2.0)}),
        (Limits(wall_seconds=60.0), {"wall_seconds": 59.0}, {"wall_seconds": 60.0}),
    ],
)
def test_nobody_is_admitted_where_nothing_is_left(
    limits: Limits, nearly: dict[str, Any], spent: dict[str, Any]
) -> None:
    office = Office(limits=limits)
    _, child, grandchild = office.chain(2)
    office.write(grandchild, **nearly)
    office.spawn(child)

    office.write(grandchild, **spent)

    name = next(one for one in ("turns", "tokens", "cost", "wall_seconds") if getattr(limits, one))
    for parent in (office.root, child, grandchild):
        refusal = office.refusal(parent)
        assert numbers(refusal) == (name, getattr(limits, name), getattr(limits, name))
        assert refusal.hint == f"raise limits.{name} of session s_root"


def test_seconds_run_out_while_a_turn_runs() -> None:
    office = Office(limits=Limits(wall_seconds=60.0))
    office.write(office.root, **running())
    office.now = 59.0
    office.spawn()

    office.now = 60.0

    assert numbers(office.refusal()) == ("wall_seconds", 60.0, 60.0)


def test_a_spent_budget_in_the_middle_leaves_its_siblings_alone() -> None:
    office = Office()
    poor, rich = office.spawn(limits=Limits(tokens=10)), office.spawn()
    office.write(poor, usage=Usage(10, 0))

    assert numbers(office.refusal(poor)) == ("tokens", 10, 10)
    assert "of session s_1" in office.refusal(poor).hint
    office.spawn(rich)


# Rights, places, times --------------------------------------------------------------------


def test_rights_are_narrowed_to_what_was_asked_and_never_widened() -> None:
    office = Office(permissions=Permissions(tools=["a", "b"], mode="approve_reads"))

    child = office.spawn(permissions=Permissions(tools=["a"], mode="deny_all"))

    assert child.permissions.tools == frozenset({"a"})
    assert numbers(office.refusal(child, permissions=Permissions(tools=["b"])))[0] == "permissions"
    wide = Permissions(mode="approve_reads")
    assert numbers(office.refusal(child, permissions=wide))[0] == "permissions"


def test_who_asks_for_no_rights_has_those_of_its_parent() -> None:
    rights = Permissions(tools=["a"], mode="deny_all")

    assert Office(permissions=rights).spawn().permissions == rights


@pytest.mark.parametrize("inside", ["/srv/a", "/srv/a/b", "/srv/a/b/c"])
def test_a_folder_inside_the_parents_is_granted(inside: str) -> None:
    assert Office(workspace="/srv/a").spawn(workspace=inside).workspace == inside


@pytest.mark.parametrize("outside", ["/srv", "/", "/srv/ab", "/srv/a.b", "/srv/A", "/etc/srv/a"])
def test_a_folder_outside_the_parents_is_refused_however_alike(outside: str) -> None:
    refusal = Office(workspace="/srv/a").refusal(workspace=outside)

    assert numbers(refusal) == ("workspace", None, None)
    assert outside in str(refusal)


def test_who_names_no_folder_has_its_parents() -> None:
    assert Office(workspace="/srv/a").spawn().workspace == "/srv/a"
    assert Office().spawn(workspace="/srv/b").workspace == "/srv/b"


@pytest.mark.parametrize("expires_at", [AT - 1.0, AT])
def test_a_time_that_is_over_is_refused(expires_at: float) -> None:
    assert numbers(Office().refusal(expires_at=expires_at)) == ("expiry", None, None)
    assert Office().spawn(expires_at=AT + 0.001).expires_at == AT + 0.001


def test_nobody_begins_below_one_who_is_over_or_about_to_be() -> None:
    office = Office()
    for phase in (Phase.STOPPING, Phase.STOPPED):
        office.write(office.root, phase)
        assert numbers(office.refusal()) == ("parent", None, None)

    office.write(office.root, Phase.SUSPENDED)
    office.spawn()


def test_nobody_begins_below_one_whose_end_is_about_to_be_written() -> None:
    office = Office()

    office.ledger.foresee(office.rows[office.root.id].changed(phase=Phase.STOPPED), 0.0)

    assert numbers(office.refusal())[0] == "parent"


def test_a_tree_that_is_being_interrupted_takes_nobody_in_anywhere() -> None:
    office = Office()
    root, child, grandchild = office.chain(2)
    child.closed += 1

    assert "s_1 is being interrupted" in str(office.refusal(grandchild))
    assert numbers(office.refusal(child)) == ("parent", None, None)
    office.spawn(root)

    child.closed -= 1
    office.spawn(grandchild)


def test_what_is_in_the_way_is_said_in_a_fixed_order() -> None:
    office = Office(limits=Limits(max_depth=0, max_children=0, max_spawns=0, turns=0))
    office.caps = Caps(max_sessions=0, max_running_turns=0)
    said = []
    for cure in (
        {"max_depth": 1, "max_children": 0, "max_spawns": 0, "turns": 0},
        {"max_children": 1, "max_spawns": 0, "turns": 0},
        {"turns": 0},
        {},
    ):
        said.append(office.refusal().limit)
        office.write(office.root, limits=Limits(**cure))
    said.append(office.refusal(workspace="/srv").limit)

    assert said == ["max_depth", "max_children", "max_spawns", "turns", "max_sessions"]


# Coming back ------------------------------------------------------------------------------


def test_who_has_room_may_come_back_though_no_spawn_is_left() -> None:
    office = Office(limits=Limits(max_spawns=1))
    child = office.spawn()
    office.write(child, Phase.STOPPED)

    assert office.problem(child) is None


@pytest.mark.parametrize("limit", ["max_children", "max_descendants"])
def test_who_comes_back_needs_a_place(limit: str) -> None:
    office = Office(limits=Limits(**{limit: 1}))
    child = office.spawn()
    office.write(child, Phase.STOPPED)
    other = office.spawn()
    assert numbers(office.problem(child)) == (limit, 1, 1)

    office.write(other, Phase.STOPPED)
    assert office.problem(child) is None


def test_who_lives_with_a_parent_comes_back_only_while_that_is_live() -> None:
    office = Office()
    bound, free = office.spawn(), office.spawn(lifetime="detached")
    for member in (bound, free, office.root):
        office.write(member, Phase.STOPPED)

    assert numbers(office.problem(bound)) == ("parent", None, None)
    assert office.problem(free) is None
    assert office.problem(office.root) is None


def test_whose_parent_was_deleted_does_not_come_back() -> None:
    office = Office()
    child = office.spawn()
    office.write(child, Phase.STOPPED)
    office.write(office.root, Phase.STOPPED)
    office.ledger.delete(office.root.id)

    assert numbers(office.problem(child)) == ("parent", None, None)


def test_whose_time_or_budget_is_over_does_not_come_back() -> None:
    office = Office()
    child = office.spawn(expires_at=AT + 5.0, limits=Limits(turns=2))
    office.write(child, Phase.STOPPED, turns=2)
    assert numbers(office.problem(child, at=AT)) == ("turns", 2, 2)
    assert numbers(office.problem(child, at=AT + 5.0)) == ("expiry", None, None)

    office.write(child, Phase.STOPPED, limits=Limits(turns=3))
    assert office.problem(child, at=AT) is None


def test_who_stands_below_nobody_needs_room_in_the_process() -> None:
    office = Office()
    office.write(office.root, Phase.STOPPED)
    office.caps = Caps(max_sessions=0)

    assert numbers(office.problem(office.root)) == ("max_sessions", 0, 0)


def test_nobody_comes_back_into_a_tree_that_is_being_interrupted() -> None:
    office = Office()
    child = office.spawn()
    office.write(child, Phase.STOPPED)
    office.root.closed += 1

    assert numbers(office.problem(child)) == ("parent", None, None)


def test_a_suspended_child_waits_while_its_place_is_taken() -> None:
    office = Office(limits=Limits(max_children=1))
    sleeper = office.spawn()
    office.write(sleeper, Phase.SUSPENDED)
    assert not has_no_place(sleeper)

    other = office.spawn()
    assert has_no_place(sleeper)
    assert not has_no_place(other), "who is up has its place"

    office.write(other, Phase.STOPPED)
    assert not has_no_place(sleeper)
