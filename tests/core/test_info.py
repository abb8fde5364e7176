"""What people see of a session and of a tree."""

from __future__ import annotations

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.info import Info, Node, make_info
from supervisor.core.state import SessionState
from tests.support.admission_tree import AdmissionTree


def test_the_repr_of_a_tree_of_ten_thousand_levels_ends() -> None:
    info = make_info(SessionState(id=SessionId("s_1"), agent_name="echo"), last_seq=0)
    fields = {field.name: getattr(info, field.name) for field in attrs.fields(Info)}
    node = Node(**fields)
    for _ in range(10_000):
        node = Node(**{**fields, "children": (node,)})

    assert repr(node).startswith("Node(id='s_1', ")
    assert "children=<1 nodes>" in repr(node)


def test_a_title_is_shown_without_control_characters() -> None:
    session = SessionState(id=SessionId("s_1"), agent_name="echo", title="a\x1b]0;b\x07c")

    assert make_info(session, last_seq=0).title == "a ]0;b c"


def test_children_that_are_only_admitted_are_not_shown() -> None:
    tree = AdmissionTree()
    child = tree.spawn()
    assert tree.root.active_child_ids() == ()

    tree.write(child)

    assert tree.root.active_child_ids() == (child.id,)
