"""A session tree with its admission state."""

# ruff: noqa: ANN401 - the words of a wish are passed on as they are
from typing import Any

import pytest

from supervisor.core.errors import SpawnRefused
from supervisor.core.ids import SessionId
from supervisor.core.limits import Limits, Lineage
from supervisor.core.state import Phase, SessionState
from supervisor.core.tree.admission import (
    AdmissionRequest,
    Caps,
    admit,
    resume_refusal,
)
from supervisor.core.tree.node import TreeNode
from supervisor.core.tree.tree import SessionTree

AT = 1000.0


class AdmissionTree:
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
        self.tree.apply(row, lambda: self.now)

    def spawn(self, parent: TreeNode | None = None, **wish: Any) -> TreeNode:
        self.count += 1
        parent = parent or self.root
        child_id = SessionId(f"s_{self.count}")
        asked = AdmissionRequest(agent="agent", **wish)
        child = admit(self.tree, self.caps, parent, child_id, asked, steady_at=AT, now=self.now)
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
        return resume_refusal(self.tree, self.caps, row, steady_at=at, now=self.now)


def numbers(refusal: SpawnRefused | None) -> tuple[str, float | None, float | None]:
    assert refusal is not None
    assert refusal.hint
    return refusal.limit, refusal.used, refusal.allowed
