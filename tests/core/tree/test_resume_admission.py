"""Admission of resumed sessions."""

import pytest

from supervisor.core.limits import Limits
from supervisor.core.state import Phase
from supervisor.core.tree.admission import (
    Caps,
    lacks_child_slot,
)
from tests.support.admission_tree import AT, AdmissionTree, numbers


def test_a_resume_does_not_need_a_spawn() -> None:
    context = AdmissionTree(limits=Limits(max_spawns=1))
    child = context.spawn()
    context.write(child, Phase.STOPPED)

    assert context.problem(child) is None


@pytest.mark.parametrize("limit", ["max_children", "max_descendants"])
def test_a_resume_needs_a_child_slot(limit: str) -> None:
    context = AdmissionTree(limits=Limits(**{limit: 1}))
    child = context.spawn()
    context.write(child, Phase.STOPPED)
    other = context.spawn()
    assert numbers(context.problem(child)) == (limit, 1, 1)

    context.write(other, Phase.STOPPED)
    assert context.problem(child) is None


def test_a_dependent_resumes_only_while_its_parent_is_live() -> None:
    context = AdmissionTree()
    bound, free = context.spawn(), context.spawn(lifetime="detached")
    for member in (bound, free, context.root):
        context.write(member, Phase.STOPPED)

    assert numbers(context.problem(bound)) == ("parent", None, None)
    assert context.problem(free) is None
    assert context.problem(context.root) is None


def test_a_dependent_of_a_deleted_parent_does_not_resume() -> None:
    context = AdmissionTree()
    child = context.spawn()
    context.write(child, Phase.STOPPED)
    context.write(context.root, Phase.STOPPED)
    context.tree.delete(context.root.id)

    assert numbers(context.problem(child)) == ("parent", None, None)


def test_a_session_past_expiry_or_budget_does_not_resume() -> None:
    context = AdmissionTree()
    child = context.spawn(expires_at=AT + 5.0, limits=Limits(turns=2))
    context.write(child, Phase.STOPPED, turns=2)
    assert numbers(context.problem(child, at=AT)) == ("turns", 2, 2)
    assert numbers(context.problem(child, at=AT + 5.0)) == ("expiry", None, None)

    context.write(child, Phase.STOPPED, limits=Limits(turns=3))
    assert context.problem(child, at=AT) is None


def test_a_root_needs_room_in_the_process_to_resume() -> None:
    context = AdmissionTree()
    context.write(context.root, Phase.STOPPED)
    context.caps = Caps(max_sessions=0)

    assert numbers(context.problem(context.root)) == ("max_sessions", 0, 0)


def test_no_session_resumes_in_an_interrupted_tree() -> None:
    context = AdmissionTree()
    child = context.spawn()
    context.write(child, Phase.STOPPED)
    context.root.tree_interrupts += 1

    assert numbers(context.problem(child)) == ("parent", None, None)


def test_a_suspended_child_waits_while_child_slots_are_full() -> None:
    context = AdmissionTree(limits=Limits(max_children=1))
    sleeper = context.spawn()
    context.write(sleeper, Phase.SUSPENDED)
    assert not lacks_child_slot(sleeper)

    other = context.spawn()
    assert lacks_child_slot(sleeper)
    assert not lacks_child_slot(other), "an active child has its slot"

    context.write(other, Phase.STOPPED)
    assert not lacks_child_slot(sleeper)
