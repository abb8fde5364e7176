"""Admission of spawns and resumes: every limit, at exactly its number, with its hint."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import SpawnRefused
from supervisor.core.ids import InputId, TurnId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.state import OpenTurn, Phase, Usage
from supervisor.core.tree.admission import (
    Caps,
    refuse_above_caps,
)
from tests.support.admission_tree import AT, AdmissionTree, numbers


def running(turn: str = "turn_1") -> dict[str, Any]:
    return {"phase": Phase.RUNNING, "turn": OpenTurn(TurnId(turn), InputId("in_1"), "user", 0.0)}


# Counts ---------------------------------------------------------------------------------


def test_a_tree_is_as_deep_as_its_limit_and_no_deeper() -> None:
    context = AdmissionTree(limits=Limits(max_depth=2))
    *_, deepest = context.chain(2)
    assert deepest.depth == 2

    refusal = context.refusal(deepest)

    assert numbers(refusal) == ("max_depth", 2, 2)
    assert "higher up" in refusal.hint


def test_a_max_depth_of_zero_allows_no_children() -> None:
    assert numbers(AdmissionTree(limits=Limits(max_depth=0)).refusal()) == ("max_depth", 0, 0)


def test_only_active_children_are_counted() -> None:
    context = AdmissionTree(limits=Limits(max_children=2))
    first, _ = context.spawn(), context.spawn()
    refusal = context.refusal()
    assert numbers(refusal) == ("max_children", 2, 2)
    assert "limits.max_children" in refusal.hint

    context.write(first, Phase.SUSPENDED)
    context.spawn()

    assert numbers(context.refusal()) == ("max_children", 2, 2)


def test_descendants_are_counted_over_the_whole_tree() -> None:
    context = AdmissionTree(limits=Limits(max_descendants=3, max_depth=9))
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
    context = AdmissionTree(limits=Limits(max_spawns=3))
    for _ in range(3):
        context.write(context.spawn(), Phase.STOPPED)

    refusal = context.refusal()

    assert numbers(refusal) == ("max_spawns", 3, 3)
    assert refusal.hint == "raise limits.max_spawns"


def test_a_withdrawn_child_is_not_counted_as_a_spawn() -> None:
    context = AdmissionTree(limits=Limits(max_spawns=1))
    context.tree.withdraw(context.spawn().id)

    context.spawn()


def test_max_sessions_bounds_the_process() -> None:
    context = AdmissionTree()
    context.caps = Caps(max_sessions=2)
    child = context.spawn()

    assert numbers(context.refusal()) == ("max_sessions", 2, 2)
    with pytest.raises(SpawnRefused):
        refuse_above_caps(context.tree, context.caps, "agent")

    context.write(child, Phase.STOPPED)
    refuse_above_caps(context.tree, context.caps, "agent")


def test_a_child_needs_a_free_turn_slot() -> None:
    context = AdmissionTree()
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
    context = AdmissionTree(limits=limits)
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


# Inherited limits -----------------------------------------------------------------------


def test_a_child_without_limits_has_the_limits_of_its_ancestor() -> None:
    context = AdmissionTree(limits=Limits(max_children=1, max_depth=9))
    _, _, grandchild = context.chain(2)
    context.spawn(grandchild)

    assert numbers(context.refusal(grandchild)) == ("max_children", 1, 1)


def test_raised_limits_apply_to_all_descendants() -> None:
    context = AdmissionTree(limits=Limits(max_depth=1))
    _, child = context.chain(1)
    assert numbers(context.refusal(child)) == ("max_depth", 1, 1)

    context.write(context.root, limits=Limits(max_depth=2))

    assert context.spawn(child).depth == 2


def test_lowered_limits_apply_to_all_descendants_at_once() -> None:
    context = AdmissionTree()
    _, child = context.chain(1, limits=Limits())

    context.write(context.root, limits=Limits(max_depth=1))

    assert numbers(context.refusal(child)) == ("max_depth", 1, 1)


def test_the_limits_of_a_child_stay_within_its_parents() -> None:
    context = AdmissionTree(
        limits=Limits(max_depth=2, max_children=3, max_descendants=4, max_spawns=5)
    )

    child = context.spawn(limits=Limits(max_depth=9, max_children=1, tokens=7))

    assert child.limits == Limits(
        max_depth=2, max_children=1, max_descendants=4, max_spawns=5, tokens=7
    )


def test_widened_limits_stay_within_the_limits_of_ancestors() -> None:
    context = AdmissionTree(limits=Limits(max_depth=1, max_children=1))
    _, child = context.chain(1)

    context.write(child, limits=Limits(max_depth=9, max_children=9))

    assert numbers(context.refusal(child)) == ("max_depth", 1, 1)


def test_the_limits_of_all_ancestors_apply() -> None:
    context = AdmissionTree(limits=Limits(max_descendants=2, max_depth=9))
    child = context.spawn(limits=Limits(max_descendants=2))
    context.spawn(child)

    assert numbers(context.refusal(child)) == ("max_descendants", 2, 2)
    assert "s_root" in str(context.refusal(child))


# Budgets --------------------------------------------------------------------------------


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
    context = AdmissionTree(limits=limits)
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
    context = AdmissionTree(limits=Limits(wall_seconds=60.0))
    context.write(context.root, **running())
    context.now = 59.0
    context.spawn()

    context.now = 60.0

    assert numbers(context.refusal()) == ("wall_seconds", 60.0, 60.0)


def test_an_exhausted_budget_of_a_subtree_does_not_bind_its_siblings() -> None:
    context = AdmissionTree()
    poor, rich = context.spawn(limits=Limits(tokens=10)), context.spawn()
    context.write(poor, usage=Usage(10, 0))

    assert numbers(context.refusal(poor)) == ("tokens", 10, 10)
    assert "of session s_1" in context.refusal(poor).hint
    context.spawn(rich)


# Rights, workspaces, expiry -------------------------------------------------------------


def test_rights_are_narrowed_and_never_widened() -> None:
    context = AdmissionTree(permissions=Permissions(tools=["a", "b"], mode="approve_reads"))

    child = context.spawn(permissions=Permissions(tools=["a"], mode="deny_all"))

    assert child.permissions.tools == frozenset({"a"})
    assert numbers(context.refusal(child, permissions=Permissions(tools=["b"])))[0] == "permissions"
    wide = Permissions(mode="approve_reads")
    assert numbers(context.refusal(child, permissions=wide))[0] == "permissions"


def test_a_child_without_rights_has_the_rights_of_its_parent() -> None:
    rights = Permissions(tools=["a"], mode="deny_all")

    assert AdmissionTree(permissions=rights).spawn().permissions == rights


@pytest.mark.parametrize("inside", ["/srv/a", "/srv/a/b", "/srv/a/b/c"])
def test_a_workspace_inside_the_parents_is_granted(inside: str) -> None:
    assert AdmissionTree(workspace="/srv/a").spawn(workspace=inside).workspace == inside


@pytest.mark.parametrize("outside", ["/srv", "/", "/srv/ab", "/srv/a.b", "/srv/A", "/etc/srv/a"])
def test_a_workspace_outside_the_parents_is_refused(outside: str) -> None:
    refusal = AdmissionTree(workspace="/srv/a").refusal(workspace=outside)

    assert numbers(refusal) == ("workspace", None, None)
    assert outside in str(refusal)


def test_a_child_without_workspace_has_its_parents() -> None:
    assert AdmissionTree(workspace="/srv/a").spawn().workspace == "/srv/a"
    assert AdmissionTree().spawn(workspace="/srv/b").workspace == "/srv/b"


@pytest.mark.parametrize("expires_at", [AT - 1.0, AT])
def test_a_past_expiry_is_refused(expires_at: float) -> None:
    assert numbers(AdmissionTree().refusal(expires_at=expires_at)) == ("expiry", None, None)
    assert AdmissionTree().spawn(expires_at=AT + 0.001).expires_at == AT + 0.001


def test_no_child_is_admitted_below_a_stopped_or_stopping_parent() -> None:
    context = AdmissionTree()
    for phase in (Phase.STOPPING, Phase.STOPPED):
        context.write(context.root, phase)
        assert numbers(context.refusal()) == ("parent", None, None)

    context.write(context.root, Phase.SUSPENDED)
    context.spawn()


def test_no_child_is_admitted_while_the_parents_end_is_committed() -> None:
    context = AdmissionTree()

    context.tree.reserve(context.rows[context.root.id].changed(phase=Phase.STOPPED), lambda: 0.0)

    assert numbers(context.refusal())[0] == "parent"


def test_an_interrupted_tree_admits_no_child() -> None:
    context = AdmissionTree()
    root, child, grandchild = context.chain(2)
    child.tree_interrupts += 1

    assert "s_1 is being interrupted" in str(context.refusal(grandchild))
    assert numbers(context.refusal(child)) == ("parent", None, None)
    context.spawn(root)

    child.tree_interrupts -= 1
    context.spawn(grandchild)


def test_refusals_have_a_fixed_order() -> None:
    context = AdmissionTree(limits=Limits(max_depth=0, max_children=0, max_spawns=0, turns=0))
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
