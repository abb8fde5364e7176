"""Comparison of the settled tree of the admission with the stored rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from supervisor import Phase
from supervisor.core.ids import SessionId
from supervisor.core.tree.node import TreeNode

from .tree_counts import ExpectedNode, is_close

if TYPE_CHECKING:
    from .tree_oracle import TreeOracle


def check_tree(oracle: TreeOracle) -> None:
    """Check that the admission has exactly the nodes, slots and counts of the stored rows."""
    assert oracle.parts is not None
    admission = oracle.parts.admission
    tree = admission.tree
    oracle.check(tree.live == oracle.live, f"live: {tree.live ^ oracle.live} are miscounted")
    oracle.check(
        set(tree.turn_slots) == oracle.running,
        f"turns: {set(tree.turn_slots) ^ oracle.running} are kept",
    )
    oracle.check(
        not admission._turn_queue,
        f"{list(admission._turn_queue)} wait for a turn slot for ever",
    )
    sleepers = {one for line in admission._slot_queue.values() for one in line}
    waiting = {
        node.id
        for node in oracle.nodes.values()
        if not node.is_deleted and node.parent is not None
        if node.row.phase is Phase.SUSPENDED and node.row.inputs
    }
    oracle.check(
        sleepers == waiting, f"{sleepers ^ waiting} are miscounted as waiting for a child slot"
    )
    kept: dict[str, Mapping[SessionId, object]] = {
        "pending": admission.notifications._pending,
        "rechecks": oracle.parts.registry._rechecks,
    }
    for name, left in kept.items():
        oracle.check(not left, f"the admission keeps {name} of {list(left)} for ever")
    for session_id, member in tree._nodes.items():
        node = oracle.nodes.get(session_id)
        if node is None or node.is_deleted:
            oracle.check(holds=False, message=f"the admission keeps a node for {session_id}")
        else:
            _compare(oracle, node, member)
    for node in oracle.nodes.values():
        if node.parent is not None and not node.is_deleted:
            there = tree.find(node.row.id) is not None
            oracle.check(there, f"the admission has no node for {node.id}")


def _compare(oracle: TreeOracle, node: ExpectedNode, member: TreeNode) -> None:
    children = [one.id for one in node.children.values() if one.is_live]
    truth = (node.up, node.descendants, node.spawns, node.running, sorted(children))
    kept = (
        member.active_children,
        member.descendant_count,
        member.spawns,
        member.running_turns,
        sorted(member.children),
    )
    oracle.check(truth == kept, f"{node.id}: the admission has {kept}, the rows have {truth}")
    oracle.check(
        is_close(node.spent, member.spent),
        f"{node.id}: the admission has spent {member.spent}, the rows {node.spent}",
    )
    oracle.check(member.tree_interrupts == 0, f"{node.id} refuses spawns for ever")
    oracle.check(
        member.limits == node.row.limits and member.permissions == node.row.permissions,
        f"{node.id}: the admission has other limits or permissions than its row",
    )
