"""Model of a supervisor tree at rest. Pure: no tasks, no clock, no randomness.

Rule 1: events happen one at a time and run to completion, so the model has no schedules; the
        real runtime must reach the same state under every schedule.
Rule 2: time has one unit, the long wait; every back-off and every window has ended after it.
Rule 3: there are three states: up, down (a restart follows), over.
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
    """An actor or a group: it has a parent, ends, and may restart."""

    name: str
    kind: RestartKind
    parent: Tree | None = None
    state: State = "up"
    how: How | None = None
    # Restarts counted against `max_restarts`: a group counts for its members, each child of
    # the root counts for itself.
    spent: int = 0
    max_restarts: int = 0
    waits: bool = False  # True if a back-off precedes a restart
    failures_left: int = 0

    @property
    def above(self) -> Tree:
        assert self.parent is not None
        return self.parent

    def launch(self) -> bool:
        """Start the node; return True if the start succeeded."""
        if self.failures_left:
            self.failures_left -= 1
            return False
        self.state = "up"
        return True

    def halt(self) -> None:
        """Stop the node for a restart; a temporary node ends for good."""
        if self.state != "over":
            self.state = "down"
            if self.kind == "temporary":
                self.be_over("stopped")

    def be_over(self, how: How | None) -> None:
        if self.state != "over":
            self.state, self.how = "over", how

    def end(self, how: How) -> None:
        """Apply an end that the node caused: its supervisor decides."""
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
                above.give_up()
            return
        counter.spent += 1
        reached = above.affected_by(self)
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

    def descendants(self) -> Iterator[Node]:
        """Yield all descendants, parents first."""
        for node in self.members:
            yield node
            if isinstance(node, Tree):
                yield from node.descendants()

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
            node.be_over(None)  # the exit of a member is not compared, only that of the group
        super().be_over(how)

    def give_up(self) -> None:
        """Give up after too many ends; this is one end for the supervisor above."""
        self.halt()
        self.end("gave up")

    def affected_by(self, violation: Node) -> list[Node]:
        """Return the members that restart with `broken`, in start order."""
        living = [node for node in self.members if node.state != "over"]
        match self.strategy:
            case "one_for_one":
                return [violation]
            case "one_for_all":
                return living
            case "rest_for_one":
                # Members that wait for a restart count too: start at the first of them.
                first = next(node for node in living if node.state == "down")
                return living[living.index(first) :]

    def bring_back(self, nodes: list[Node]) -> None:
        for node in nodes:
            if node.state == "down" and not node.launch():
                node.end("crashed")
                return

    def wait_long(self) -> None:
        """End all back-offs and all restart windows."""
        for node in (self, *self.descendants()):
            node.spent = 0
        for node in (self, *self.descendants()):
            if isinstance(node, Tree) and node.state == "up":
                node.bring_back(node.members)
