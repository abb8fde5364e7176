"""Admission of spawns and resumes: every limit, at exactly its number, with its hint."""
# ruff: noqa: ANN401 - the words of a wish are passed on as they are

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import SpawnRefused
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.limits import Limits, Lineage
from supervisor.core.permissions import Permissions
from supervisor.core.state import OpenTurn, Phase, SessionState, Usage
from supervisor.core.tree.admission import (
    AdmissionRequest,
    Caps,
    admit,
    lacks_child_slot,
    refuse_above_caps,
    resume_refusal,
)
from supervisor.core.tree.node import TreeNode
from supervisor.core.tree.tree import SessionTree

AT = 1000.0


class Fixture:
    """A tree, a root with limits, and requests of its children."""

    def __init__(self, **root: Any) -> None:
        self.tree = SessionTree()
        self.caps = Caps()
        self.count = 0
        self.now = 0.0
        row = SessionState(id=SessionId("s_root"), agent_name="agent", phase=Phase.IDLE)
        self.rows = {row.id: row}
        root.setdefault("limits", Limits())
        self.root = self.tree.add(row.changed(**root))
        self.write(self.root, **root)

    def write(self, member: TreeNode, phase: Phase = Phase.IDLE, **changes: Any) -> None:
        row = self.rows[member.id].changed(phase=phase, **changes)
        self.rows[member.id] = row
        self.tree.apply(row, self.now)

    def spawn(self, parent: TreeNode | None = None, **wish: Any) -> TreeNode:
        self.count += 1
        parent = parent or self.root
        child_id = SessionId(f"s_{self.count}")
        asked = AdmissionRequest(agent="agent", **wish)
        child = admit(self.tree, self.caps, parent, child_id, asked, at=AT, now=self.now)
        lineage = Lineage(
            parent=parent.id,
            depth=child.depth,
            lifetime=child.lifetime,
            expires_at=wish.get("expires_at"),
        )
        self.rows[child_id] = SessionState(
            id=child_id, agent_name="agent", lineage=lineage, limits=child.limits
        )
        return child

    def chain(self, length: int, **wish: Any) -> list[TreeNode]:
        members = [self.root]
        for _ in range(length):
            members.append(self.spawn(members[-1], **wish))
        return members

    def refusal(self, parent: TreeNode | None = None, **wish: Any) -> SpawnRefused:
        before = self.picture()
        with pytest.raises(SpawnRefused) as refusal:
            self.spawn(parent, **wish)
        assert self.picture() == before, "a refused request takes no slot"
        return refusal.value

    def picture(self) -> Any:
        members = [self.tree.find(one) for one in self.rows]
        counts = [
            (one.active_children, one.descendant_count, one.spawns)
            for one in members
            if one is not None
        ]
        return counts, set(self.tree.live), set(self.tree.turn_slots)

    def problem(self, member: TreeNode, at: float = AT) -> SpawnRefused | None:
        row = self.rows[member.id]
        return resume_refusal(self.tree, self.caps, row, at=at, now=self.now)


def numbers(refusal: SpawnRefused | None) -> tuple[str, float | None, float | None]:
    assert refusal is not None
    assert refusal.hint
    return refusal.limit, refusal.used, refusal.allowed


def running(turn: str = "turn_1") -> dict[str, Any]:
    return {"phase": Phase.RUNNING, "turn": OpenTurn(TurnId(turn), InputId("in_1"), "user", 0.0)}


# Counts ----------------------------------------------------------------------------------


def test_a_tree_is_as_deep_as_its_limit_and_no_deeper() -> None:
    context = Fixture(limits=Limits(max_depth=2))
    *_, deepest = context.chain(2)
    assert deepest.depth == 2

    refusal = context.refusal(deepest)

    assert numbers(refusal) == ("max_depth", 2, 2)
    assert "higher up" in refusal.hint


def test_a_max_depth_of_zero_allows_no_children() -> None:
    assert numbers(Fixture(limits=Limits(max_depth=0)).refusal()) == ("max_depth", 0, 0)


def test_only_active_children_are_counted() -> None:
    context = Fixture(limits=Limits(max_children=2))
    first, _ = context.spawn(), context.spawn()
    refusal = context.refusal()
    assert numbers(refusal) == ("max_children", 2, 2)
    assert "limits.max_children" in refusal.hint

    context.write(first, Phase.SUSPENDED)
    context.spawn()

    assert numbers(context.refusal()) == ("max_children", 2, 2)


def test_descendants_are_counted_over_the_whole_tree() -> None:
    context = Fixture(limits=Limits(max_descendants=3, max_depth=9))
    members = context.chain(3)
    for member in members[1:]:
        context.write(member, Phase.SUSPENDED)

    for parent in members:
        refusal = context.refusal(parent)
        assert numbers(refusal) == ("max_descendants", 3, 3)
        assert str(context.root.id) in str(refusal)

    context.write(members[3], Phase.STOPPED)
    context.spawn(members[1])


def test_spawns_are_never_uncounted() -> None:
    context = Fixture(limits=Limits(max_spawns=3))
    for _ in range(3):
        context.write(context.spawn(), Phase.STOPPED)

    refusal = context.refusal()

    assert numbers(refusal) == ("max_spawns", 3, 3)
    assert refusal.hint == "raise limits.max_spawns"


def test_a_withdrawn_child_is_not_counted_as_a_spawn() -> None:
    context = Fixture(limits=Limits(max_spawns=1))
    context.tree.withdraw(context.spawn().id)

    context.spawn()


def test_max_sessions_bounds_the_process() -> None:
    context = Fixture()
    context.caps = Caps(max_sessions=2)
    child = context.spawn()

    assert numbers(context.refusal()) == ("max_sessions", 2, 2)
    with pytest.raises(SpawnRefused):
        refuse_above_caps(context.tree, context.caps, "agent")

    context.write(child, Phase.STOPPED)
    refuse_above_caps(context.tree, context.caps, "agent")


def test_a_child_needs_a_free_turn_slot() -> None:
    context = Fixture()
    context.caps = Caps(max_running_turns=2)
    context.write(context.root, **running())
    child = context.spawn()

    assert numbers(context.refusal()) == ("max_running_turns", 2, 2)

    context.write(child, Phase.STOPPED)
    context.spawn()


LIMITS = st.integers(0, 4)


@given(LIMITS, LIMITS, LIMITS, LIMITS, st.lists(st.tuples(st.integers(0, 9), st.booleans())))
def test_no_sequence_of_spawns_and_ends_gets_past_any_limit(
    depth: int, children: int, descendants: int, spawns: int, moves: list[tuple[int, bool]]
) -> None:
    limits = Limits(
        max_depth=depth, max_children=children, max_descendants=descendants, max_spawns=spawns
    )
    context = Fixture(limits=limits)
    members = [context.root]
    for which, ends in moves:
        member = members[which % len(members)]
        with suppress(SpawnRefused):
            if ends and member is not context.root:
                context.write(member, Phase.STOPPED)
            else:
                members.append(context.spawn(member))

    assert max(member.depth for member in members) <= depth
    assert max(member.active_children for member in members) <= children
    assert context.root.descendant_count <= descendants
    assert context.root.spawns <= spawns


# Inherited limits ------------------------------------------------------------------------


def test_a_child_without_limits_has_those_of_its_ancestor() -> None:
    context = Fixture(limits=Limits(max_children=1, max_depth=9))
    _, _, grandchild = context.chain(2)
    context.spawn(grandchild)

    assert numbers(context.refusal(grandchild)) == ("max_children", 1, 1)


def test_raised_limits_apply_to_all_descendants() -> None:
    context = Fixture(limits=Limits(max_depth=1))
    _, child = context.chain(1)
    assert numbers(context.refusal(child)) == ("max_depth", 1, 1)

    context.write(context.root, limits=Limits(max_depth=2))

    assert context.spawn(child).depth == 2


def test_lowered_limits_apply_to_all_descendants_at_once() -> None:
    context = Fixture()
    _, child = context.chain(1, limits=Limits())

    context.write(context.root, limits=Limits(max_depth=1))

    assert numbers(context.refusal(child)) == ("max_depth", 1, 1)


def test_a_childs_limits_are_no_wider_than_its_parents() -> None:
    context = Fixture(limits=Limits(max_depth=2, max_children=3, max_descendants=4, max_spawns=5))

    child = context.spawn(limits=Limits(max_depth=9, max_children=1, tokens=7))

    assert child.limits == Limits(
        max_depth=2, max_children=1, max_descendants=4, max_spawns=5, tokens=7
    )


def test_widened_limits_stay_within_those_of_ancestors() -> None:
    context = Fixture(limits=Limits(max_depth=1, max_children=1))
    _, child = context.chain(1)

    context.write(child, limits=Limits(max_depth=9, max_children=9))

    assert numbers(context.refusal(child)) == ("max_depth", 1, 1)


def test_the_limits_of_all_ancestors_apply() -> None:
    context = Fixture(limits=Limits(max_descendants=2, max_depth=9))
    child = context.spawn(limits=Limits(max_descendants=2))
    context.spawn(child)

    assert numbers(context.refusal(child)) == ("max_descendants", 2, 2)
    assert "s_root" in str(context.refusal(child))


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
def test_no_child_is_admitted_on_an_exhausted_budget(
    limits: Limits, nearly: dict[str, Any], spent: dict[str, Any]
) -> None:
    context = Fixture(limits=limits)
    _, child, grandchild = context.chain(2)
    context.write(grandchild, **nearly)
    context.spawn(child)

    context.write(grandchild, **spent)

    name = next(one for one in ("turns", "tokens", "cost", "wall_seconds") if getattr(limits, one))
    for parent in (context.root, child, grandchild):
        refusal = context.refusal(parent)
        assert numbers(refusal) == (name, getattr(limits, name), getattr(limits, name))
        assert refusal.hint == f"raise limits.{name} of session s_root"


def test_wall_seconds_are_used_while_a_turn_runs() -> None:
    context = Fixture(limits=Limits(wall_seconds=60.0))
    context.write(context.root, **running())
    context.now = 59.0
    context.spawn()

    context.now = 60.0

    assert numbers(context.refusal()) == ("wall_seconds", 60.0, 60.0)


def test_a_spent_budget_in_the_middle_leaves_its_siblings_alone() -> None:
    context = Fixture()
    poor, rich = context.spawn(limits=Limits(tokens=10)), context.spawn()
    context.write(poor, usage=Usage(10, 0))

    assert numbers(context.refusal(poor)) == ("tokens", 10, 10)
    assert "of session s_1" in context.refusal(poor).hint
    context.spawn(rich)


# Rights, workspaces, expiry --------------------------------------------------------------


def test_rights_are_narrowed_and_never_widened() -> None:
    context = Fixture(permissions=Permissions(tools=["a", "b"], mode="approve_reads"))

    child = context.spawn(permissions=Permissions(tools=["a"], mode="deny_all"))

    assert child.permissions.tools == frozenset({"a"})
    assert numbers(context.refusal(child, permissions=Permissions(tools=["b"])))[0] == "permissions"
    wide = Permissions(mode="approve_reads")
    assert numbers(context.refusal(child, permissions=wide))[0] == "permissions"


def test_a_child_without_rights_has_those_of_its_parent() -> None:
    rights = Permissions(tools=["a"], mode="deny_all")

    assert Fixture(permissions=rights).spawn().permissions == rights


@pytest.mark.parametrize("inside", ["/srv/a", "/srv/a/b", "/srv/a/b/c"])
def test_a_workspace_inside_the_parents_is_granted(inside: str) -> None:
    assert Fixture(workspace="/srv/a").spawn(workspace=inside).workspace == inside


@pytest.mark.parametrize("outside", ["/srv", "/", "/srv/ab", "/srv/a.b", "/srv/A", "/etc/srv/a"])
def test_a_workspace_outside_the_parents_is_refused(outside: str) -> None:
    refusal = Fixture(workspace="/srv/a").refusal(workspace=outside)

    assert numbers(refusal) == ("workspace", None, None)
    assert outside in str(refusal)


def test_a_child_without_workspace_has_its_parents() -> None:
    assert Fixture(workspace="/srv/a").spawn().workspace == "/srv/a"
    assert Fixture().spawn(workspace="/srv/b").workspace == "/srv/b"


@pytest.mark.parametrize("expires_at", [AT - 1.0, AT])
def test_a_past_expiry_is_refused(expires_at: float) -> None:
    assert numbers(Fixture().refusal(expires_at=expires_at)) == ("expiry", None, None)
    assert Fixture().spawn(expires_at=AT + 0.001).expires_at == AT + 0.001


def test_no_child_is_admitted_below_a_stopped_or_stopping_parent() -> None:
    context = Fixture()
    for phase in (Phase.STOPPING, Phase.STOPPED):
        context.write(context.root, phase)
        assert numbers(context.refusal()) == ("parent", None, None)

    context.write(context.root, Phase.SUSPENDED)
    context.spawn()


def test_no_child_is_admitted_while_the_parents_end_is_committed() -> None:
    context = Fixture()

    context.tree.reserve(context.rows[context.root.id].changed(phase=Phase.STOPPED), 0.0)

    assert numbers(context.refusal())[0] == "parent"


def test_an_interrupted_tree_admits_no_child() -> None:
    context = Fixture()
    root, child, grandchild = context.chain(2)
    child.tree_interrupts += 1

    assert "s_1 is being interrupted" in str(context.refusal(grandchild))
    assert numbers(context.refusal(child)) == ("parent", None, None)
    context.spawn(root)

    child.tree_interrupts -= 1
    context.spawn(grandchild)


def test_refusals_have_a_fixed_order() -> None:
    context = Fixture(limits=Limits(max_depth=0, max_children=0, max_spawns=0, turns=0))
    context.caps = Caps(max_sessions=0, max_running_turns=0)
    said = []
    for cure in (
        {"max_depth": 1, "max_children": 0, "max_spawns": 0, "turns": 0},
        {"max_children": 1, "max_spawns": 0, "turns": 0},
        {"turns": 0},
        {},
    ):
        said.append(context.refusal().limit)
        context.write(context.root, limits=Limits(**cure))
    said.append(context.refusal(workspace="/srv").limit)

    assert said == ["max_depth", "max_children", "max_spawns", "turns", "max_sessions"]


# Resume ----------------------------------------------------------------------------------


def test_a_resume_does_not_need_a_spawn() -> None:
    context = Fixture(limits=Limits(max_spawns=1))
    child = context.spawn()
    context.write(child, Phase.STOPPED)

    assert context.problem(child) is None


@pytest.mark.parametrize("limit", ["max_children", "max_descendants"])
def test_a_resume_needs_a_child_slot(limit: str) -> None:
    context = Fixture(limits=Limits(**{limit: 1}))
    child = context.spawn()
    context.write(child, Phase.STOPPED)
    other = context.spawn()
    assert numbers(context.problem(child)) == (limit, 1, 1)

    context.write(other, Phase.STOPPED)
    assert context.problem(child) is None


def test_a_dependent_resumes_only_while_its_parent_is_live() -> None:
    context = Fixture()
    bound, free = context.spawn(), context.spawn(lifetime="detached")
    for member in (bound, free, context.root):
        context.write(member, Phase.STOPPED)

    assert numbers(context.problem(bound)) == ("parent", None, None)
    assert context.problem(free) is None
    assert context.problem(context.root) is None


def test_a_dependent_of_a_deleted_parent_does_not_resume() -> None:
    context = Fixture()
    child = context.spawn()
    context.write(child, Phase.STOPPED)
    context.write(context.root, Phase.STOPPED)
    context.tree.delete(context.root.id)

    assert numbers(context.problem(child)) == ("parent", None, None)


def test_a_session_past_expiry_or_budget_does_not_resume() -> None:
    context = Fixture()
    child = context.spawn(expires_at=AT + 5.0, limits=Limits(turns=2))
    context.write(child, Phase.STOPPED, turns=2)
    assert numbers(context.problem(child, at=AT)) == ("turns", 2, 2)
    assert numbers(context.problem(child, at=AT + 5.0)) == ("expiry", None, None)

    context.write(child, Phase.STOPPED, limits=Limits(turns=3))
    assert context.problem(child, at=AT) is None


def test_a_root_needs_room_in_the_process_to_resume() -> None:
    context = Fixture()
    context.write(context.root, Phase.STOPPED)
    context.caps = Caps(max_sessions=0)

    assert numbers(context.problem(context.root)) == ("max_sessions", 0, 0)


def test_no_session_resumes_in_an_interrupted_tree() -> None:
    context = Fixture()
    child = context.spawn()
    context.write(child, Phase.STOPPED)
    context.root.tree_interrupts += 1

    assert numbers(context.problem(child)) == ("parent", None, None)


def test_a_suspended_child_waits_while_child_slots_are_full() -> None:
    context = Fixture(limits=Limits(max_children=1))
    sleeper = context.spawn()
    context.write(sleeper, Phase.SUSPENDED)
    assert not lacks_child_slot(sleeper)

    other = context.spawn()
    assert lacks_child_slot(sleeper)
    assert not lacks_child_slot(other), "an active child has its slot"

    context.write(other, Phase.STOPPED)
    assert not lacks_child_slot(sleeper)
