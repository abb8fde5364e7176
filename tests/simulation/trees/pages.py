"""The tree as its commits have made it, counted in books of our own.

Rule 1: nothing here asks the desk. What is counted step by step is counted once more, from nothing
        but rows, when all is quiet.
Rule 2: who was deleted stays here: what they had spent is spent, and they were once started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from supervisor import Limits, Phase
from supervisor.core.session import Session as Row
from supervisor.core.session import Spending

Told: TypeAlias = Literal["started", "done", "over"]


@attrs.define(eq=False)
class Page:
    """One session: its row, its place, and what is below it."""

    id: str
    parent: Page | None
    row: Row
    is_gone: bool = False
    # Its children, in the order in which it is on record that each was started last; those that
    # are over too.
    children: dict[str, Page] = attrs.Factory(dict)
    # How many of them are up; how many below it are not over; how many there ever were.
    up: int = 0
    descendants: int = 0
    spawns: int = 0
    # Turns that run in it or below it, and what it and all below it have spent.
    running: int = 0
    spent: Spending = Spending()
    # What became of it, and what its parent has written down of that.
    became: list[Told] = attrs.Factory(list)
    told: list[Told] = attrs.Factory(list)
    restarted_at: list[float] = attrs.Factory(list)
    # Whether its parent has written down that it was started, and so when, among its siblings.
    is_on_record: bool = False

    def path(self) -> Iterator[Page]:
        page: Page | None = self
        while page is not None:
            yield page
            page = page.parent

    def below(self) -> Iterator[Page]:
        for child in self.children.values():
            yield child
            yield from child.below()

    @property
    def is_live(self) -> bool:
        return not self.is_gone and self.row.phase is not Phase.STOPPED

    @property
    def is_up(self) -> bool:
        """Whether it takes a place among its parent's children: it has an agent, or will have."""
        row = self.row
        let_go = row.phase is Phase.STOPPING and row.stopping and row.stopping.agent_closed
        return self.is_live and row.phase is not Phase.SUSPENDED and not let_go

    @property
    def is_running(self) -> bool:
        return not self.is_gone and self.row.turn is not None

    @property
    def ends_with_parent(self) -> bool:
        return self.parent is not None and self.row.lineage.lifetime == "with_parent"

    @property
    def rules(self) -> Limits:
        return next((one.row.limits for one in self.path() if one.row.limits), Limits())

    # Steps --------------------------------------------------------------------------------

    def begin(self) -> None:
        """It is there from now on."""
        if self.parent is not None:
            for one in self.parent.path():
                one.spawns += 1
            self.parent.children[self.id] = self
        self._count(1)

    def turn_to(self, row: Row) -> None:
        """It is so from now on."""
        self._count(-1)
        self.row = row
        self._count(1)

    def be_on_record(self) -> None:
        """Its parent says that it was started: the youngest from now on."""
        assert self.parent is not None
        self.parent.children[self.id] = self.parent.children.pop(self.id)
        self.is_on_record = True

    def go(self) -> None:
        """It was deleted."""
        self._count(-1)
        self.is_gone = True
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
        """The same counts, worked out anew."""
        below = list(self.below())
        spent = self.row.spending
        for page in below:
            spent += page.row.spending
        return (
            sum(child.is_up for child in self.children.values()),
            sum(page.is_live for page in below),
            len(below),
            sum(page.is_running for page in (self, *below)),
            spent,
        )

    @property
    def counts(self) -> tuple[int, int, int, int, Spending]:
        return (self.up, self.descendants, self.spawns, self.running, self.spent)


def is_close(one: Spending, other: Spending) -> bool:
    """Floats that were added in another order are not equal to the last bit."""
    return (
        (one.turns, one.tokens) == (other.turns, other.tokens)
        and abs(one.cost - other.cost) < 1e-6
        and abs(one.wall_seconds - other.wall_seconds) < 1e-6
    )
