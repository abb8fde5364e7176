"""Which trees may go."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from supervisor.core.ids import InputId, SessionId
from supervisor.core.session import Lineage, Phase, Session, Waiting
from supervisor.store.retention import Goes, Rules, plan

HOUR = 3_600.0
NOW = 1_000_000.0


def session(called: str, *, age: float = 0.0, **changes: Any) -> Session:  # noqa: ANN401
    """A session that is over, and in which something was said."""
    at = NOW - age
    made = Session(id=SessionId(called), agent_name="echo", phase=Phase.STOPPED, messages=1)
    return attrs.evolve(made, **{"created_at": at, "updated_at": at, **changes})


def child(called: str, parent: str, root: str, *, depth: int = 1, **changes: Any) -> Session:  # noqa: ANN401
    lineage = Lineage(parent=SessionId(parent), root=SessionId(root), depth=depth)
    return session(called, lineage=lineage, **changes)


def goes(rows: list[Session], sizes: dict[str, int] | None = None, **rules: Any) -> list[Goes]:  # noqa: ANN401
    known = {SessionId(name): size for name, size in (sizes or {}).items()}
    return plan(rows, known, Rules(**rules), at=NOW)


def names(found: list[Goes]) -> list[tuple[str, ...]]:
    return [one.sessions for one in found]


# By what ---------------------------------------------------------------------------------


def test_without_rules_nothing_goes_in_which_something_was_said() -> None:
    assert goes([session("old", age=1e9), session("new")]) == []


@pytest.mark.parametrize(("age", "gone"), [(99.0, False), (100.0, False), (100.1, True)])
def test_by_age_goes_what_is_older(age: float, *, gone: bool) -> None:
    found = goes([session("one", age=age)], older_than_seconds=100.0)

    assert names(found) == ([("one",)] if gone else [])


def test_an_age_counts_from_what_last_happened_anywhere_in_the_tree() -> None:
    rows = [session("root", age=500.0), child("kid", "root", "root", age=50.0)]

    assert goes(rows, older_than_seconds=100.0) == []
    assert names(goes(rows, older_than_seconds=10.0)) == [("kid", "root")]


def test_by_count_the_last_are_kept() -> None:
    rows = [session(f"s{age}", age=float(age)) for age in (3, 1, 2, 5, 4)]

    assert names(goes(rows, keep_last=2)) == [("s5",), ("s4",), ("s3",)]
    assert len(goes(rows, keep_last=0)) == 5
    assert goes(rows, keep_last=5) == []


def test_by_count_live_ones_are_not_counted() -> None:
    rows = [session("live", phase=Phase.IDLE), session("a", age=2.0), session("b", age=1.0)]

    assert names(goes(rows, keep_last=1)) == [("a",)]


def test_by_count_as_many_stay_as_were_asked_for_though_some_are_empty() -> None:
    rows = [session("said", age=3 * HOUR), session("empty", age=2 * HOUR, messages=0)]

    assert names(goes(rows, keep_last=1)) == [("empty",)]


def test_by_size_the_oldest_go_until_the_rest_is_small_enough() -> None:
    rows = [session(f"s{age}", age=float(age)) for age in (3, 2, 1)]
    sizes = {"s3": 10, "s2": 20, "s1": 30}

    assert names(goes(rows, sizes, max_bytes=60)) == []
    assert names(goes(rows, sizes, max_bytes=59)) == [("s3",)]
    assert names(goes(rows, sizes, max_bytes=49)) == [("s3",), ("s2",)]
    assert names(goes(rows, sizes, max_bytes=0)) == [("s3",), ("s2",), ("s1",)]


def test_by_size_a_tree_is_as_large_as_all_in_it() -> None:
    rows = [session("root", age=2.0), child("kid", "root", "root", age=2.0), session("new")]

    [gone] = goes(rows, {"root": 1, "kid": 100, "new": 5}, max_bytes=50)

    assert (gone.sessions, gone.reason, gone.bytes) == (("kid", "root"), "size", 101)


def test_each_says_why() -> None:
    rows = [session("a", age=100.0), session("b", age=50.0), session("c", age=40.0)]
    rows += [session("d", age=30.0), session("e", age=2 * HOUR, messages=0)]

    found = goes(rows, {"d": 10}, older_than_seconds=60.0, keep_last=2, max_bytes=0)

    assert {one.root: one.reason for one in found} == {
        "a": "age",
        "b": "count",
        "c": "size",
        "d": "size",
        "e": "empty",
    }


# Empty -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "gone"), [(HOUR, False), (HOUR + 1.0, True)])
def test_an_empty_root_goes_after_an_hour(age: float, *, gone: bool) -> None:
    found = goes([session("one", age=age, messages=0)])

    assert [one.reason for one in found] == (["empty"] if gone else [])


HELD = Waiting(InputId("in_1"), 1, "please", "queue", "user", 1.0, 0)
SAID: dict[str, dict[str, Any]] = {
    "a message": {"messages": 1},
    "a turn": {"messages": 0, "turns": 1},
    "an input that is held": {"messages": 0, "inputs": (HELD,)},
}


@pytest.mark.parametrize("changes", SAID.values(), ids=SAID.keys())
def test_a_root_in_which_somebody_said_something_is_not_empty(changes: dict[str, Any]) -> None:
    assert goes([session("one", age=1e9, **changes)]) == []


def test_a_root_is_not_empty_if_something_was_said_below_it() -> None:
    rows = [session("root", age=1e9, messages=0), child("kid", "root", "root", age=1e9)]

    assert goes(rows) == []


# What never goes -------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {"older_than_seconds": 0.0, "keep_last": 0, "max_bytes": 0}
LIVE = [phase for phase in Phase if phase is not Phase.STOPPED]


@pytest.mark.parametrize("phase", LIVE)
def test_a_session_that_is_not_over_never_goes(phase: Phase) -> None:
    rows = [session("one", age=1e9, phase=phase, messages=0)]

    assert goes(rows, {"one": 1_000_000}, **EVERYTHING) == []


@pytest.mark.parametrize("phase", LIVE)
def test_a_tree_with_one_that_is_not_over_stays_whole(phase: Phase) -> None:
    rows = [session("root", age=1e9), child("a", "root", "root", age=1e9)]
    rows.append(child("b", "a", "root", depth=2, age=1e9, phase=phase))

    assert goes(rows, **EVERYTHING) == []


def test_a_detached_child_that_lives_keeps_its_tree() -> None:
    lineage = Lineage(
        parent=SessionId("root"), root=SessionId("root"), depth=1, lifetime="detached"
    )
    rows = [session("root", age=1e9), session("kid", lineage=lineage, phase=Phase.IDLE)]

    assert goes(rows, **EVERYTHING) == []


def test_an_archived_tree_goes_like_any_other() -> None:
    rows = [session("one", age=10.0, archived=True)]

    assert names(goes(rows, older_than_seconds=5.0)) == [("one",)]


# In which order --------------------------------------------------------------------------


def test_children_go_before_their_parents() -> None:
    rows = [
        child("grandkid", "kid", "root", depth=2, age=30.0),
        session("root", age=10.0),
        child("kid", "root", "root", age=20.0),
        child("kid2", "root", "root", age=5.0),
    ]

    [gone] = goes(rows, older_than_seconds=1.0)

    assert gone.root == "root"
    assert gone.sessions.index("grandkid") < gone.sessions.index("kid")
    assert gone.sessions[-1] == "root"
    assert set(gone.sessions) == {"root", "kid", "kid2", "grandkid"}


def test_whoever_has_lost_its_root_goes_with_those_of_the_same() -> None:
    rows = [child("a", "gone", "gone", age=10.0), child("b", "a", "gone", depth=2, age=10.0)]

    assert names(goes(rows, older_than_seconds=1.0)) == [("b", "a")]


def test_one_of_them_that_lives_keeps_the_others() -> None:
    rows = [child("a", "gone", "gone", age=10.0), child("b", "gone", "gone", phase=Phase.IDLE)]

    assert goes(rows, **EVERYTHING) == []


def test_a_clock_that_was_set_back_makes_nobody_old() -> None:
    assert goes([session("one", age=-1e6, messages=0)], older_than_seconds=0.0) == []


def test_nobody_goes_twice() -> None:
    rows = [session(f"s{number}", age=2 * HOUR, messages=number % 2) for number in range(20)]

    found = [one for gone in names(goes(rows, **EVERYTHING)) for one in gone]

    assert sorted(found) == sorted({row.id for row in rows})
