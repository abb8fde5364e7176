"""A tree of sessions that is deeper than the stack of Python and the limits of JSON parsers."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.info import Info, Node, make_info
from supervisor.core.state import SessionState

DEPTH = 2_000


def deep_tree() -> Node:
    """Return a chain of nodes; the root is `s_0`, the others `s_1` to `s_2000`."""
    info = make_info(SessionState(id=SessionId("s_0"), agent_name="echo"), last_seq=0)
    fields = {field.name: getattr(info, field.name) for field in attrs.fields(Info)}
    children: tuple[Node, ...] = ()
    for number in range(DEPTH, -1, -1):
        shown = {"id": SessionId(f"s_{number}"), "children": children, "custom": {"a": '}{"\\[,:'}}
        children = (Node(**{**fields, **shown}),)
    return children[0]


def chain(root: Node) -> Iterator[Node]:
    """Yield the node, its child, and so on."""
    node: Node | None = root
    while node is not None:
        yield node
        node = node.children[0] if node.children else None
