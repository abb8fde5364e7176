"""Schedules as deviations from a plain order, so that they can be shortened and replayed.

Rule 1: as in `_schedule`, tasks are numbers, and this file does not import trio.
Rule 2: a deviation is named by the task that ran last and the number of its steps, not by the
        number of the tick: so it keeps its meaning when an earlier deviation is removed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ._schedule import CLOCK, LEASE_TICKS, Policy


class Place(NamedTuple):
    """A decision of a run: the task that ran last, its steps so far, and earlier choices there."""

    task: int
    steps: int
    nth: int


# The choices that differ from the plain order, each a task or `CLOCK`.
Deviations: TypeAlias = Mapping[Place, int]


class PlainOrder:
    """The order without preemptions: a task runs until it blocks, then the next in turn.

    Tasks are counted from the first task of the run, because trio counts over all runs.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._last = 0
        # Ticks that the last task has had in a row; a task that never blocks must not go on alone.
        self._in_a_row = 0
        self._steps: Counter[int] = Counter()
        self._nth = 0
        self.preemptions = 0
        self.early_timeouts = 0

    def relative(self, ready: Sequence[int]) -> list[int]:
        """Return the numbers of the ready tasks, counted from the first task of the run."""
        if self._first is None:
            self._first = ready[0]
        return [number - self._first for number in ready]

    def absolute(self, task: int) -> int:
        """Return the number by which the loop knows the task."""
        return task if task == CLOCK else task + (self._first or 0)

    @property
    def place(self) -> Place:
        """The decision that is due."""
        return Place(self._last, self._steps[self._last], self._nth)

    def next_task(self, ready: Sequence[int]) -> int:
        """Return the task that is next in the plain order; `ready` is ascending."""
        following = bisect_right(ready, self._last)
        may_go_on = following > 0 and ready[following - 1] == self._last
        if may_go_on and self._in_a_row < LEASE_TICKS:
            return self._last
        return ready[following % len(ready)]

    def record(self, ready: Sequence[int], chosen: int) -> None:
        """Record the decision."""
        if chosen == CLOCK:
            self.early_timeouts += 1
            self._nth += 1
            return
        if chosen != self._last:
            self.preemptions += self._last in ready
            self._in_a_row = 0
        self._in_a_row += 1
        self._last = chosen
        self._steps[chosen] += 1
        self._nth = 0


class Recorder:
    """A policy that decides as another one does, and records where that deviates."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.order = PlainOrder()
        self.deviations: dict[Place, int] = {}

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """Return the choice of the recorded policy."""
        order, known = self.order, self.order.relative(ready)
        number = self._policy.choose(ready, timeout_pending=timeout_pending)
        chosen = CLOCK if number == CLOCK else known[ready.index(number)]
        if chosen != order.next_task(known):
            self.deviations[order.place] = chosen
        order.record(known, chosen)
        return number


class Replay:
    """A policy that follows the plain order except for the given deviations.

    A deviation that is not possible is ignored; `used` are the others.
    """

    def __init__(self, deviations: Deviations) -> None:
        self._deviations = deviations
        self.order = PlainOrder()
        self.used: dict[Place, int] = {}

    def choose(self, ready: Sequence[int], *, timeout_pending: bool) -> int:
        """Return the deviation for this decision, else the next task of the plain order."""
        order, known = self.order, self.order.relative(ready)
        place, chosen = order.place, order.next_task(known)
        wanted = self._deviations.get(place, chosen)
        if wanted != chosen and (timeout_pending if wanted == CLOCK else wanted in known):
            self.used[place] = chosen = wanted
        order.record(known, chosen)
        return order.absolute(chosen)
