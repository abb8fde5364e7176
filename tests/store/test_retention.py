"""Which trees a clean-up removes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from supervisor.core.ids import InputId, SessionId
from supervisor.core.limits import Lineage
from supervisor.core.state import PendingInput, Phase, SessionState
from supervisor.store.retention import RemovableTree, RetentionRules, plan_cleanup

HOUR = 3_600.0
NOW = 1_000_000.0


def session(name: str, *, age: float = 0.0, **changes: Any) -> SessionState:  # noqa: ANN401
    """Return a stopped session with an input."""
    at = NOW - age
    made = SessionState(id=SessionId(name), agent_name="echo", phase=Phase.STOPPED, messages=1)
    return attrs.evolve(made, **{"created_at": at, "updated_at": at, **changes})


def child(name: str, parent: str, root: str, *, depth: int = 1, **changes: Any) -> SessionState:  # noqa: ANN401
    lineage = Lineage(parent=SessionId(parent), root=SessionId(root), depth=depth)
    return session(name, lineage=lineage, **changes)


def removable(
    rows: list[SessionState],
    sizes: dict[str, int] | None = None,
    **rules: Any,  # noqa: ANN401
) -> list[RemovableTree]:
    known = {SessionId(name): size for name, size in (sizes or {}).items()}
    return plan_cleanup(rows, known, RetentionRules(**rules), at=NOW)


def names(found: list[RemovableTree]) -> list[tuple[str, ...]]:
    return [one.sessions for one in found]


# Rules -----------------------------------------------------------------------------------


def test_nothing_but_empty_trees_is_removed_without_rules() -> None:
    assert removable([session("old", age=1e9), session("new")]) == []


@pytest.mark.parametrize(("age", "gone"), [(99.0, False), (100.0, False), (100.1, True)])
def test_the_age_rule_removes_older_trees(age: float, *, gone: bool) -> None:
    found = removable([session("one", age=age)], older_than_seconds=100.0)

    assert names(found) == ([("one",)] if gone else [])


def test_the_age_counts_from_the_last_update_in_the_tree() -> None:
    rows = [session("root", age=500.0), child("child-agent", "root", "root", age=50.0)]

    assert removable(rows, older_than_seconds=100.0) == []
    assert names(removable(rows, older_than_seconds=10.0)) == [("child-agent", "root")]


def test_the_count_rule_keeps_the_most_recent_trees() -> None:
    rows = [session(f"s{age}", age=float(age)) for age in (3, 1, 2, 5, 4)]

    assert names(removable(rows, keep_last=2)) == [("s5",), ("s4",), ("s3",)]
    assert len(removable(rows, keep_last=0)) == 5
    assert removable(rows, keep_last=5) == []


def test_the_count_rule_does_not_count_live_trees() -> None:
    rows = [session("live", phase=Phase.IDLE), session("a", age=2.0), session("b", age=1.0)]

    assert names(removable(rows, keep_last=1)) == [("a",)]


def test_the_count_rule_does_not_count_removed_empty_trees() -> None:
    rows = [session("said", age=3 * HOUR), session("empty", age=2 * HOUR, messages=0)]

    assert names(removable(rows, keep_last=1)) == [("empty",)]


def test_the_size_rule_removes_the_oldest_until_the_rest_fits() -> None:
    rows = [session(f"s{age}", age=float(age)) for age in (3, 2, 1)]
    sizes = {"s3": 10, "s2": 20, "s1": 30}

    assert names(removable(rows, sizes, max_bytes=60)) == []
    assert names(removable(rows, sizes, max_bytes=59)) == [("s3",)]
    assert names(removable(rows, sizes, max_bytes=49)) == [("s3",), ("s2",)]
    assert names(removable(rows, sizes, max_bytes=0)) == [("s3",), ("s2",), ("s1",)]


def test_the_size_of_a_tree_is_that_of_all_its_sessions() -> None:
    rows = [session("root", age=2.0), child("child-agent", "root", "root", age=2.0), session("new")]

    [gone] = removable(rows, {"root": 1, "child-agent": 100, "new": 5}, max_bytes=50)

    assert (gone.sessions, gone.reason, gone.bytes) == (("child-agent", "root"), "size", 101)


def test_each_removable_tree_has_its_reason() -> None:
    rows = [session("a", age=100.0), session("b", age=50.0), session("c", age=40.0)]
    rows += [session("d", age=30.0), session("e", age=2 * HOUR, messages=0)]

    found = removable(rows, {"d": 10}, older_than_seconds=60.0, keep_last=2, max_bytes=0)

    assert {one.root: one.reason for one in found} == {
        "a": "age",
        "b": "count",
        "c": "size",
        "d": "size",
        "e": "empty",
    }


# Empty trees -----------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "gone"), [(HOUR, False), (HOUR + 1.0, True)])
def test_an_empty_root_is_removed_after_an_hour(age: float, *, gone: bool) -> None:
    found = removable([session("one", age=age, messages=0)])

    assert [one.reason for one in found] == (["empty"] if gone else [])


HELD = PendingInput(InputId("in_1"), 1, "please", "queue", "user", 1.0, 0)
SAID: dict[str, dict[str, Any]] = {
    "a message": {"messages": 1},
    "a turn": {"messages": 0, "turns": 1},
    "an input that is held": {"messages": 0, "inputs": (HELD,)},
}


@pytest.mark.parametrize("changes", SAID.values(), ids=SAID.keys())
def test_a_root_with_an_input_is_not_empty(changes: dict[str, Any]) -> None:
    assert removable([session("one", age=1e9, **changes)]) == []


def test_a_root_is_not_empty_if_a_descendant_has_an_input() -> None:
    rows = [session("root", age=1e9, messages=0), child("child-agent", "root", "root", age=1e9)]

    assert removable(rows) == []


# Trees that are kept ---------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {"older_than_seconds": 0.0, "keep_last": 0, "max_bytes": 0}
LIVE = [phase for phase in Phase if phase is not Phase.STOPPED]


@pytest.mark.parametrize("phase", LIVE)
def test_a_session_that_is_not_stopped_is_never_removed(phase: Phase) -> None:
    rows = [session("one", age=1e9, phase=phase, messages=0)]

    assert removable(rows, {"one": 1_000_000}, **EVERYTHING) == []


@pytest.mark.parametrize("phase", LIVE)
def test_a_tree_with_a_session_that_is_not_stopped_is_kept(phase: Phase) -> None:
    rows = [session("root", age=1e9), child("a", "root", "root", age=1e9)]
    rows.append(child("b", "a", "root", depth=2, age=1e9, phase=phase))

    assert removable(rows, **EVERYTHING) == []


def test_a_live_detached_child_keeps_its_tree() -> None:
    lineage = Lineage(
        parent=SessionId("root"), root=SessionId("root"), depth=1, lifetime="detached"
    )
    rows = [session("root", age=1e9), session("child-agent", lineage=lineage, phase=Phase.IDLE)]

    assert removable(rows, **EVERYTHING) == []


def test_an_archived_tree_is_removed_like_any_other() -> None:
    rows = [session("one", age=10.0, archived=True)]

    assert names(removable(rows, older_than_seconds=5.0)) == [("one",)]


# Order -----------------------------------------------------------------------------------


def test_children_are_listed_before_their_parents() -> None:
    rows = [
        child("grandkid", "child-agent", "root", depth=2, age=30.0),
        session("root", age=10.0),
        child("child-agent", "root", "root", age=20.0),
        child("kid2", "root", "root", age=5.0),
    ]

    [gone] = removable(rows, older_than_seconds=1.0)

    assert gone.root == "root"
    assert gone.sessions.index("grandkid") < gone.sessions.index("child-agent")
    assert gone.sessions[-1] == "root"
    assert set(gone.sessions) == {"root", "child-agent", "kid2", "grandkid"}


def test_sessions_without_their_root_are_removed_together() -> None:
    rows = [child("a", "gone", "gone", age=10.0), child("b", "a", "gone", depth=2, age=10.0)]

    assert names(removable(rows, older_than_seconds=1.0)) == [("b", "a")]


def test_a_live_session_without_its_root_keeps_its_tree() -> None:
    rows = [child("a", "gone", "gone", age=10.0), child("b", "gone", "gone", phase=Phase.IDLE)]

    assert removable(rows, **EVERYTHING) == []


def test_a_clock_set_back_makes_no_tree_old() -> None:
    assert removable([session("one", age=-1e6, messages=0)], older_than_seconds=0.0) == []


def test_no_session_is_listed_twice() -> None:
    rows = [session(f"s{number}", age=2 * HOUR, messages=number % 2) for number in range(20)]

    found = [one for gone in names(removable(rows, **EVERYTHING)) for one in gone]

    assert sorted(found) == sorted({row.id for row in rows})
