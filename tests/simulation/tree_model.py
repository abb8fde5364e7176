"""What a supervisor tree should look like when all is quiet. Pure: no tasks, no clock, no dice.

Rule 1: one thing happens at a time and runs to its end, so there are no schedules in here; the
        real runtime must come to the same end under every one of them.
Rule 2: time has one unit, the long wait: every back-off is over by then, and every window too.
Rule 3: three states are enough: up, down (it will come back), over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from actors._restart import RestartKind, Strategy

State: TypeAlias = Literal["up", "down", "over"]
How: TypeAlias = Literal["crashed", "finished", "stopped", "gave up"]


@attrs.define(eq=False)
class Node:
    """An actor, or a group: something with a parent that can end and come back."""

    name: str
    kind: RestartKind
    parent: Tree | None = None
    state: State = "up"
    how: How | None = None
    # Restarts counted against `max_restarts`: a group counts for its members, the root lets
    # every child count for itself.
    spent: int = 0
    max_restarts: int = 0
    waits: bool = False  # whether there is a back-off before a restart
    failures_ahead: int = 0

    @property
    def above(self) -> Tree:
        assert self.parent is not None
        return self.parent

    def launch(self) -> bool:
        """Whether it came up."""
        if self.failures_ahead:
            self.failures_ahead -= 1
            return False
        self.state = "up"
        return True

    def halt(self) -> None:
        """Down for a restart; a temporary one has no second life."""
        if self.state != "over":
            self.state = "down"
            if self.kind == "temporary":
                self.be_over("stopped")

    def be_over(self, how: How | None) -> None:
        if self.state != "over":
            self.state, self.how = "over", how

    def end(self, how: How) -> None:
        """It ended by itself: let the supervisor decide."""
        self.state = "down"
        above = self.above
        if not self._comes_back(how):
            self.be_over(how)
            return
        counter = self if above.is_root else above
        if counter.spent >= counter.max_restarts:
            if above.is_root:
                self.be_over("gave up")
            else:
                above.collapse()
            return
        counter.spent += 1
        reached = above.reach(self)
        for node in reversed(reached):
            node.halt()
        if not counter.waits:
            above.bring_back(reached)

    def _comes_back(self, how: How) -> bool:
        return self.kind == "permanent" or (self.kind == "transient" and how != "finished")


@attrs.define(eq=False)
class Tree(Node):
    """A group, or the root."""

    strategy: Strategy = "one_for_one"
    members: list[Node] = attrs.Factory(list)

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def add(self, node: Node) -> None:
        node.parent = self
        self.members.append(node)

    def everyone(self) -> Iterator[Node]:
        """All below, parents first."""
        for node in self.members:
            yield node
            if isinstance(node, Tree):
                yield from node.everyone()

    def launch(self) -> bool:
        self.spent = 0
        for node in self.members:
            if node.state != "over" and not node.launch():
                self.halt()
                return False
        self.state = "up"
        return True

    def halt(self) -> None:
        for node in reversed(self.members):
            node.halt()
        super().halt()

    def be_over(self, how: How | None) -> None:
        for node in self.members:
            node.be_over(None)  # of one kind or another: the group's end is what counts
        super().be_over(how)

    def collapse(self) -> None:
        """More ends than allowed: the group falls, and that is one end for whoever is above."""
        self.halt()
        self.end("gave up")

    def reach(self, broken: Node) -> list[Node]:
        """Whom the end of one member drags along, in start order."""
        living = [node for node in self.members if node.state != "over"]
        match self.strategy:
            case "one_for_one":
                return [broken]
            case "one_for_all":
                return living
            case "rest_for_one":
                # Who is still to come back counts too: from the first of those on.
                first = next(node for node in living if node.state == "down")
                return living[living.index(first) :]

    def bring_back(self, nodes: list[Node]) -> None:
        for node in nodes:
            if node.state == "down" and not node.launch():
                node.end("crashed")
                return

    def wait_long(self) -> None:
        """All back-offs end, all windows pass."""
        for node in (self, *self.everyone()):
            node.spent = 0
        for node in (self, *self.everyone()):
            if isinstance(node, Tree) and node.state == "up":
                node.bring_back(node.members)
