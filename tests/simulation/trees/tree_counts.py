"""Expected tree: the counts that follow from the committed rows.

Rule 1: nothing here asks the admission. Counts are updated step by step and recounted from the
        rows when every task is blocked.
Rule 2: deleted sessions stay: their spending and their spawns still count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from supervisor import Limits, Permissions, Phase
from supervisor.core.permissions import MODES, RIGHTS
from supervisor.core.state import SessionState as Row
from supervisor.core.state import Spending

Told: TypeAlias = Literal["started", "done", "over"]


@attrs.define(eq=False)
class ExpectedNode:
    """One session: its row, its position, and the counts below it."""

    id: str
    parent: ExpectedNode | None
    row: Row
    is_deleted: bool = False
    # Its children in the order of their last recorded start, including stopped ones.
    children: dict[str, ExpectedNode] = attrs.Factory(dict)
    # Children in a slot; descendants not stopped; spawns so far.
    up: int = 0
    descendants: int = 0
    spawns: int = 0
    # Running turns and spending of the subtree.
    running: int = 0
    spent: Spending = Spending()
    # Events of the session, and those that its parent has recorded.
    became: list[Told] = attrs.Factory(list)
    told: list[Told] = attrs.Factory(list)
    restarted_at: list[float] = attrs.Factory(list)
    # True if its parent has recorded its start, and so its age among its siblings.
    is_on_record: bool = False

    def path(self) -> Iterator[ExpectedNode]:
        node: ExpectedNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> Iterator[ExpectedNode]:
        for child in self.children.values():
            yield child
            yield from child.below()

    @property
    def is_live(self) -> bool:
        return not self.is_deleted and self.row.phase is not Phase.STOPPED

    @property
    def is_up(self) -> bool:
        """True if it takes a child slot: it has an agent or will have one."""
        row = self.row
        let_go = row.phase is Phase.STOPPING and row.stopping and row.stopping.agent_closed
        return self.is_live and row.phase is not Phase.SUSPENDED and not let_go

    @property
    def is_running(self) -> bool:
        return not self.is_deleted and self.row.turn is not None

    @property
    def ends_with_parent(self) -> bool:
        return self.parent is not None and self.row.lineage.lifetime == "with_parent"

    @property
    def rules(self) -> Limits:
        return next((one.row.limits for one in self.path() if one.row.limits), Limits())

    # Steps --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Add the session to the counts."""
        if self.parent is not None:
            for one in self.parent.path():
                one.spawns += 1
            self.parent.children[self.id] = self
        self._count(1)

    def update(self, row: Row) -> None:
        """Replace the row and update the counts."""
        self._count(-1)
        self.row = row
        self._count(1)

    def mark_youngest(self) -> None:
        """Mark it as the youngest child: its parent recorded its start."""
        assert self.parent is not None
        self.parent.children[self.id] = self.parent.children.pop(self.id)
        self.is_on_record = True

    def go(self) -> None:
        """Mark it as deleted; its spending still counts."""
        self._count(-1)
        self.is_deleted = True
        self._spend(1)

    def _count(self, by: int) -> None:
        if self.parent is not None:
            self.parent.up += by * self.is_up
            for one in self.parent.path():
                one.descendants += by * self.is_live
        for one in self.path():
            one.running += by * self.is_running
        self._spend(by)

    def _spend(self, by: int) -> None:
        own = self.row.spending
        change = Spending(by * own.turns, by * own.tokens, by * own.cost, by * own.wall_seconds)
        for one in self.path():
            one.spent += change

    # From nothing but rows ----------------------------------------------------------------

    def recount(self) -> tuple[int, int, int, int, Spending]:
        """Return the counts, computed from the rows alone."""
        below = list(self.below())
        spent = self.row.spending
        for node in below:
            spent += node.row.spending
        return (
            sum(child.is_up for child in self.children.values()),
            sum(node.is_live for node in below),
            len(below),
            sum(node.is_running for node in (self, *below)),
            spent,
        )

    @property
    def counts(self) -> tuple[int, int, int, int, Spending]:
        return (self.up, self.descendants, self.spawns, self.running, self.spent)


def is_close(one: Spending, other: Spending) -> bool:
    """Return True if two spendings are equal apart from float rounding."""
    return (
        (one.turns, one.tokens) == (other.turns, other.tokens)
        and abs(one.cost - other.cost) < 1e-6
        and abs(one.wall_seconds - other.wall_seconds) < 1e-6
    )


def exhausted_budgets(node: ExpectedNode) -> list[str]:
    """Return the names of the exhausted budgets of a node."""
    limits: Limits | None = node.row.limits
    if limits is None:
        return []
    return [
        budget
        for budget in ("turns", "tokens", "cost")
        if getattr(limits, budget) is not None
        and getattr(node.spent, budget) >= getattr(limits, budget)
    ]


def widened(parent: Permissions, child: Permissions) -> Iterator[str]:
    """Yield the permissions that a child has and its parent lacks."""
    for right in RIGHTS:
        had, has = getattr(parent, right), getattr(child, right)
        if had is not None and (has is None or not has <= had):
            yield right
    if MODES.index(child.mode or MODES[-1]) > MODES.index(parent.mode or MODES[0]):
        yield "mode"
