"""Which trees may go: a plan, no deeds.

Rule 1: a tree goes whole or stays whole, and only if all in it are stopped.
Rule 2: nothing goes because something about it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.session import Phase, Session

Reason: TypeAlias = Literal["age", "count", "size", "empty"]

# A root in which nobody ever said anything goes after an hour.
EMPTY_SECONDS: Final = 3_600.0


@attrs.frozen(kw_only=True)
class Rules:
    """What is kept; None keeps everything.

    `older_than_seconds`: since anything last happened in the tree. `keep_last`: so many of the
    trees that may go. `max_bytes`: of all that is stored, so much.
    """

    older_than_seconds: float | None = None
    keep_last: int | None = None
    max_bytes: int | None = None


@attrs.frozen
class Goes:
    """A tree that may go: its root, all in it with children before their parents, and why."""

    root: SessionId
    sessions: tuple[SessionId, ...]
    reason: Reason
    bytes: int


@attrs.define
class _Tree:
    root: Session
    members: list[Session]
    bytes: int

    @property
    def last(self) -> float:
        return max(one.updated_at for one in self.members)

    @property
    def is_over(self) -> bool:
        return all(one.phase is Phase.STOPPED for one in self.members)

    @property
    def is_empty(self) -> bool:
        return not any(
            one.messages or one.turns or one.accepted or one.inputs for one in self.members
        )


def plan(
    rows: Iterable[Session], sizes: Mapping[SessionId, int], rules: Rules, *, at: float
) -> list[Goes]:
    """The trees that may go by these rules: empty ones, then those that rest for longest."""
    trees = _trees(rows, sizes)
    total = sum(tree.bytes for tree in trees)
    over = sorted((tree for tree in trees if tree.is_over), key=lambda tree: tree.last)
    goes = [_goes(tree, "empty") for tree in over if _is_waste(tree, at)]
    total -= sum(tree.bytes for tree in goes)
    over = [tree for tree in over if not _is_waste(tree, at)]
    for place, tree in enumerate(over):
        left = len(over) - place
        reason = _reason(tree, rules, at=at, left=left, total=total)
        if reason is not None:
            goes.append(_goes(tree, reason))
            total -= tree.bytes
    return goes


def _goes(tree: _Tree, reason: Reason) -> Goes:
    # Children before parents: made later, so the last made first.
    ids = tuple(one.id for one in reversed(tree.members))
    return Goes(tree.root.id, ids, reason, tree.bytes)


def _is_waste(tree: _Tree, at: float) -> bool:
    return tree.is_empty and at - tree.last > EMPTY_SECONDS


def _reason(tree: _Tree, rules: Rules, *, at: float, left: int, total: int) -> Reason | None:
    age = at - tree.last
    if rules.older_than_seconds is not None and age > rules.older_than_seconds:
        return "age"
    if rules.keep_last is not None and left > rules.keep_last:
        return "count"
    if rules.max_bytes is not None and total > rules.max_bytes:
        return "size"
    return None


def _trees(rows: Iterable[Session], sizes: Mapping[SessionId, int]) -> list[_Tree]:
    """All trees; whoever's root is gone stands with those of the same root."""
    trees: dict[SessionId, _Tree] = {}
    for row in sorted(rows, key=lambda row: (row.lineage.depth, row.created_at, row.id)):
        root = row.lineage.root or row.id
        size = sizes.get(row.id, 0)
        tree = trees.get(root)
        if tree is None:
            trees[root] = _Tree(row, [row], size)
        else:
            tree.members.append(row)
            tree.bytes += size
    return list(trees.values())
