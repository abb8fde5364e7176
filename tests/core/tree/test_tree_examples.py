"""The session tree: slots, spending and stop order, one example each."""

from __future__ import annotations

import pytest

from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.limits import Limits, Lineage
from supervisor.core.state import (
    OpenTurn,
    PendingInput,
    Phase,
    SessionState,
    Spending,
    TreeState,
    Usage,
)
from supervisor.core.tree import tree
from supervisor.core.tree.node import TreeNode
from supervisor.core.tree.tree import SessionTree
from supervisor.core.workspace_root import WorkspaceRoot

ROOT = SessionState(id=SessionId("s_root"), agent_name="agent", phase=Phase.IDLE, limits=Limits())

SPAWN_INPUT = PendingInput(InputId("in_1"), 1, "go", "queue", "parent", 0.0, generation=0)


def test_pins_of_stopped_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_STOPPED_PINS", 2)
    ledger = SessionTree()
    ledger.mark_live(ROOT.id, "agent")
    names = [ROOT.id, *(SessionId(f"s_{number}") for number in range(20))]

    sizes = []
    for name in names:
        ledger.pin_workspace(name, WorkspaceRoot("/w"))
        sizes.append(len(ledger.workspace_roots))

    assert max(sizes) <= 1 + 2 * 2
    assert {ROOT.id, names[-1]} <= set(ledger.workspace_roots)


def a_family(*names: str) -> tuple[SessionTree, list[TreeNode]]:
    """Return a tree with a root and its children, all of them up; and the nodes, the root first."""
    ledger = SessionTree()
    members = [ledger.add(ROOT)]
    ledger.apply(ROOT, lambda: 0.0)
    for name in names:
        members.append(ledger.admit(SessionId(name), members[0], "with_parent"))
        ledger.apply(child(name, Phase.IDLE), lambda: 0.0)
    return ledger, members


def child(name: str, phase: Phase, turn: str | None = None, began: float = 0.0) -> SessionState:
    lineage = Lineage(parent=ROOT.id, root=ROOT.id, depth=1)
    opened = None if turn is None else OpenTurn(TurnId(turn), SPAWN_INPUT.id, "parent", began)
    return SessionState(
        id=SessionId(name), agent_name="agent", phase=phase, lineage=lineage, turn=opened
    )


def test_a_slot_is_taken_before_the_commit_and_released_after() -> None:
    ledger, (root, _) = a_family("a")
    ledger.apply(child("a", Phase.SUSPENDED), lambda: 0.0)

    ledger.reserve(child("a", Phase.IDLE), lambda: 0.0)
    assert root.active_children == 1
    ledger.apply(child("a", Phase.IDLE), lambda: 0.0)
    ledger.reserve(child("a", Phase.STOPPED), lambda: 0.0)
    assert root.active_children == 1
    ledger.apply(child("a", Phase.STOPPED), lambda: 0.0)
    assert (root.active_children, root.descendant_count, root.spawns) == (0, 0, 1)


def test_a_withdrawn_child_releases_its_slot_and_spawn() -> None:
    ledger, (root,) = a_family()
    ledger.admit(SessionId("a"), root, "with_parent")

    ledger.withdraw(SessionId("a"))
    ledger.withdraw(SessionId("a"))

    assert (root.active_children, root.descendant_count, root.spawns) == (0, 0, 0)
    assert (ledger.live, ledger.turn_slots) == ({ROOT.id}, {})


def test_a_deleted_sessions_spending_stays_counted() -> None:
    ledger, (root, _) = a_family("a")
    ledger.apply(child("a", Phase.STOPPED).changed(usage=Usage(70, 30), turns=2), lambda: 0.0)

    ledger.delete(SessionId("a"))

    assert root.spent == Spending(turns=2, tokens=100)
    assert (root.spawns, root.descendant_count) == (1, 0)


def test_a_child_of_a_deleted_parent_is_counted_by_ancestors() -> None:
    ledger, (root, middle) = a_family("a")
    below = ledger.admit(SessionId("b"), middle, "with_parent")
    ledger.apply(child("a", Phase.STOPPED), lambda: 0.0)
    ledger.delete(SessionId("a"))
    assert root.descendant_count == 1

    ledger.apply(child("b", Phase.STOPPED).changed(usage=Usage(5, 0)), lambda: 0.0)

    assert (root.descendant_count, root.spawns, root.spent.tokens) == (0, 2, 5)
    assert [one.id for one in below.path()] == ["b", "a", "s_root"]


def test_deleted_descendants_are_counted_when_rows_are_read() -> None:
    ledger = SessionTree()
    root = ledger.add(ROOT)
    family = TreeState(deleted=Spending(1, 20, 0.5, 3.0), deleted_spawns=3)

    middle = ledger.add(child("a", Phase.IDLE).changed(family=family))

    assert (root.spawns, middle.spawns) == (4, 3)
    assert root.spent == middle.spent == family.deleted


def test_usage_committed_before_the_tree_existed_is_kept() -> None:
    ledger, (root, _) = a_family("a")
    turn = OpenTurn(TurnId("turn_1"), SPAWN_INPUT.id, "parent", 0.0, usage=Usage(10, 5, 1.0))
    row = child("a", Phase.RUNNING).changed(turn=turn, usage=Usage(10, 5, 1.0), turns=1)

    ledger.apply(row, lambda: 0.0)

    assert root.spent == Spending(1, 15, 1.0)


def test_reported_usage_counts_before_the_commit_and_once() -> None:
    ledger, (root, _) = a_family("a")
    running = child("a", Phase.RUNNING, "turn_1")
    ledger.apply(running, lambda: 0.0)
    ledger.report_usage(SessionId("a"), TurnId("turn_1"), Usage(10, 5, 1.0))
    assert (root.spent.tokens, root.spent.cost) == (15, 1.0)

    turn = OpenTurn(TurnId("turn_1"), SPAWN_INPUT.id, "parent", 0.0, usage=Usage(10, 5, 1.0))
    ledger.apply(running.changed(turn=turn, usage=Usage(10, 5, 1.0)), lambda: 0.0)

    assert (root.spent.tokens, root.spent.cost) == (15, 1.0)


def test_wall_seconds_count_running_turns_only() -> None:
    ledger, (root, *_) = a_family("a", "b")
    ledger.apply(child("a", Phase.RUNNING, "turn_1"), lambda: 10.0)
    ledger.apply(child("b", Phase.RUNNING, "turn_2"), lambda: 12.0)
    assert root.used("wall_seconds", 20.0) == 18.0

    ledger.apply(child("a", Phase.IDLE).changed(wall_seconds=10.0), lambda: 20.0)

    assert root.used("wall_seconds", 30.0) == 28.0
    assert ledger.turn_slots[SessionId("b")].ran_seconds(30.0) == 18.0


def test_children_stop_the_youngest_first() -> None:
    ledger, (root, a, b, c) = a_family("a", "b", "c")
    root.order_stops()
    assert [one.has_younger_sibling() for one in (a, b, c)] == [True, True, False]

    ledger.reserve(child("c", Phase.STOPPED), lambda: 0.0)

    assert [one.has_younger_sibling() for one in (a, b)] == [True, False]


def test_a_stopped_younger_sibling_is_not_waited_for() -> None:
    ledger, (root, a, b) = a_family("a", "b")
    root.order_stops()
    ledger.apply(child("b", Phase.STOPPED), lambda: 0.0)

    assert not a.has_younger_sibling()
    assert not b.has_younger_sibling()


def test_detached_children_are_not_in_the_stop_order() -> None:
    ledger, (root, a) = a_family("a")
    ledger.admit(SessionId("b"), root, "detached")

    assert root.order_stops() == [a]
    assert not a.has_younger_sibling()


def test_a_detached_child_is_not_requeued_after_a_failed_commit() -> None:
    ledger, (root, a) = a_family("a")
    ledger.admit(SessionId("b"), root, "detached")
    root.order_stops()
    ledger.reserve(child("b", Phase.STOPPED), lambda: 0.0)
    ledger.apply(child("b", Phase.SUSPENDED), lambda: 0.0)

    assert root.stop_order == [a]
    assert not a.has_younger_sibling()


def test_the_child_recorded_last_is_the_youngest() -> None:
    ledger, (root, a, b, c) = a_family("a", "b", "c")
    ledger.mark_youngest(SessionId("a"))

    assert root.order_stops() == [b, c, a]


def test_a_repaired_session_has_its_children_again() -> None:
    ledger = SessionTree()
    ledger.add_deleted_ancestors([ROOT.id])
    assert ledger.is_deleted_ancestor(ROOT.id)
    ledger.add(child("a", Phase.IDLE))

    root = ledger.add(ROOT)

    assert list(root.children) == ["a"]
    assert (root.active_children, root.descendant_count, root.spawns) == (1, 1, 1)
    assert not ledger.is_deleted_ancestor(ROOT.id)


def test_adding_a_deleted_ancestor_creates_no_child() -> None:
    ledger, (root, *_) = a_family("a")
    ledger.apply(child("a", Phase.STOPPED), lambda: 0.0)
    ledger.mark_youngest(SessionId("a"))
    ledger.mark_youngest(root.id)

    assert list(root.children) == []


def test_a_stopping_root_read_from_its_row_is_stopping() -> None:
    ledger = SessionTree()

    assert ledger.add(ROOT.changed(phase=Phase.STOPPING)).is_stopping


def test_a_turn_keeps_its_start_time_after_a_failed_commit() -> None:
    ledger, (root, _) = a_family("a")
    running = child("a", Phase.RUNNING, "turn_1")
    ledger.apply(running, lambda: 10.0)
    ledger.report_usage(SessionId("a"), TurnId("turn_1"), Usage(10, 0))

    ledger.reserve(child("a", Phase.RUNNING, "turn_2"), lambda: 50.0)
    ledger.apply(running, lambda: 50.0)

    assert root.used("wall_seconds", 60.0) == 50.0
    assert root.spent.tokens == 10


def test_a_turn_reservation_survives_a_failed_commit() -> None:
    ledger, (root,) = a_family()
    ledger.admit(SessionId("a"), root, "with_parent")
    starting = child("a", Phase.STARTING).changed(inputs=(SPAWN_INPUT,))
    ledger.apply(starting, lambda: 0.0)

    ledger.reserve(child("a", Phase.RUNNING, "turn_1"), lambda: 5.0)
    ledger.apply(starting, lambda: 5.0)

    assert ledger.turn_slots[SessionId("a")].turn is None
    assert root.running_turns == 0


def test_a_sibling_waits_on_after_a_failed_commit_of_an_end() -> None:
    ledger, (root, a, _) = a_family("a", "b")
    root.order_stops()
    ledger.reserve(child("b", Phase.STOPPED), lambda: 0.0)
    a.has_younger_sibling()

    ledger.apply(child("b", Phase.IDLE), lambda: 0.0)

    assert a.has_younger_sibling()


def test_a_session_deleted_during_its_resume_releases_its_slot() -> None:
    ledger = SessionTree()
    root = ledger.add(SessionState(id=SessionId("s_root"), agent_name="agent", phase=Phase.IDLE))
    ledger.admit(SessionId("s_child"), root, "with_parent")

    ledger.delete(SessionId("s_child"))

    assert (root.active_children, root.dependent_count, root.descendant_count, root.children) == (
        0,
        0,
        0,
        {},
    )


def test_the_last_child_is_requeued_after_a_failed_commit() -> None:
    ledger, (root, a) = a_family("a")
    root.order_stops()
    ledger.reserve(child("a", Phase.STOPPED), lambda: 0.0)
    assert root.next_to_stop() is None

    ledger.apply(child("a", Phase.SUSPENDED), lambda: 0.0)

    assert a.is_in_stop_order
    assert root.next_to_stop() is a


def test_a_stopped_child_is_not_in_the_stop_order() -> None:
    ledger, (root, a) = a_family("a")
    root.order_stops()
    ledger.reserve(child("a", Phase.STOPPED), lambda: 0.0)
    root.next_to_stop()

    ledger.apply(child("a", Phase.STOPPED), lambda: 0.0)

    assert not a.is_in_stop_order
    assert root.next_to_stop() is None
