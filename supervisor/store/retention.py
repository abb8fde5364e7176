"""The plan of a cleanup: the stopped trees to remove; the caller deletes them.

Rule 1: a tree is removed or kept as a whole, and only removed if all its sessions are stopped.
Rule 2: missing information never causes a removal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.state import Phase, SessionState

Reason: TypeAlias = Literal["age", "count", "size", "empty"]

# A stopped tree without any input is removed after an hour.
EMPTY_SECONDS: Final = 3_600.0


@attrs.frozen(kw_only=True)
class RetentionRules:
    """Rules of a cleanup; a rule that is None removes nothing.

    `older_than_seconds`: time since the last update in the tree. `keep_last`: number of stopped
    trees to keep. `max_bytes`: limit for the size of all stored records.
    """

    older_than_seconds: float | None = None
    keep_last: int | None = None
    max_bytes: int | None = None


@attrs.frozen
class RemovableTree:
    """A tree to remove: its root, its sessions with children before parents, and the reason."""

    root: SessionId
    sessions: tuple[SessionId, ...]
    reason: Reason
    bytes: int


@attrs.define
class _StoredTree:
    root: SessionState
    members: list[SessionState]
    bytes: int

    @property
    def last_updated(self) -> float:
        return max(session.updated_at for session in self.members)

    @property
    def is_stopped(self) -> bool:
        return all(session.phase is Phase.STOPPED for session in self.members)

    @property
    def is_empty(self) -> bool:
        return not any(
            session.messages or session.turns or session.accepted or session.inputs
            for session in self.members
        )


def plan_cleanup(
    rows: Iterable[SessionState],
    sizes: Mapping[SessionId, int],
    rules: RetentionRules,
    *,
    at: float,
) -> list[RemovableTree]:
    """Return the trees to remove: empty ones, then the others, least recently updated first."""
    trees = _trees(rows, sizes)
    total = sum(tree.bytes for tree in trees)
    stopped = sorted(
        (tree for tree in trees if tree.is_stopped), key=lambda tree: tree.last_updated
    )
    removable = [_removable(tree, "empty") for tree in stopped if _is_expired_empty(tree, at)]
    total -= sum(tree.bytes for tree in removable)
    stopped = [tree for tree in stopped if not _is_expired_empty(tree, at)]
    for place, tree in enumerate(stopped):
        left = len(stopped) - place
        reason = _reason(tree, rules, at=at, left=left, total=total)
        if reason is not None:
            removable.append(_removable(tree, reason))
            total -= tree.bytes
    return removable


def _removable(tree: _StoredTree, reason: Reason) -> RemovableTree:
    # Members are sorted by depth, so the reverse has children before parents.
    ids = tuple(session.id for session in reversed(tree.members))
    return RemovableTree(tree.root.id, ids, reason, tree.bytes)


def _is_expired_empty(tree: _StoredTree, at: float) -> bool:
    return tree.is_empty and at - tree.last_updated > EMPTY_SECONDS


def _reason(
    tree: _StoredTree, rules: RetentionRules, *, at: float, left: int, total: int
) -> Reason | None:
    age = at - tree.last_updated
    if rules.older_than_seconds is not None and age > rules.older_than_seconds:
        return "age"
    if rules.keep_last is not None and left > rules.keep_last:
        return "count"
    if rules.max_bytes is not None and total > rules.max_bytes:
        return "size"
    return None


def _trees(rows: Iterable[SessionState], sizes: Mapping[SessionId, int]) -> list[_StoredTree]:
    """Return all trees; sessions whose root was deleted are grouped by the root's id."""
    trees: dict[SessionId, _StoredTree] = {}
    for row in sorted(rows, key=lambda row: (row.lineage.depth, row.created_at, row.id)):
        root = row.lineage.root or row.id
        size = sizes.get(row.id, 0)
        tree = trees.get(root)
        if tree is None:
            trees[root] = _StoredTree(row, [row], size)
        else:
            tree.members.append(row)
            tree.bytes += size
    return list(trees.values())
