"""Search for the shortest schedule under which a program still fails in the same way.

Rule 1: a shorter schedule has fewer deviations from the plain order: fewer preemptions, and fewer
        time-outs that are fired early.
Rule 2: the search is bounded in runs and in steps, and depends on nothing else, so it finds the
        same schedule each time.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import TypeAlias

from ._replay import Deviations
from ._schedule import CLOCK

# Bounds of one search.
MAX_RUNS = 400
MAX_STEPS_OF_ALL_RUNS = 1_000_000

# What distinguishes failures: for each error its type, the line that raised it, and the first line
# of its text without numbers and ids.
Origin: TypeAlias = tuple[type[BaseException], str, int | None, str]
FailureKind: TypeAlias = frozenset[Origin]

# Runs the program; returns its steps and, if it failed in the same way, the deviations it used.
Attempt: TypeAlias = Callable[[Deviations], tuple[int, Deviations | None]]


def kind_of(error: BaseException) -> FailureKind:
    """Return the kind of a failure; that of a group has the kinds of its members."""
    return frozenset(_kinds(error))


def _kinds(error: BaseException) -> Iterator[Origin]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _kinds(member)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        raised_at = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
        yield type(error), *raised_at, re.sub(r"\S*\d\S*", "", _first_line(error))


def _first_line(error: BaseException) -> str:
    try:
        return str(error).partition("\n")[0]
    except Exception:  # noqa: BLE001 - the program's own code; the line that raised still counts
        return ""


class Shrinker:
    """The search for a shorter schedule; `shortest` is the shortest that failed so far."""

    def __init__(self, attempt: Attempt, deviations: Deviations) -> None:
        self._attempt = attempt
        self.shortest = deviations
        self.runs = 0
        self._steps = 0

    def search(self) -> Deviations:
        """Remove deviations until each that is left is needed, or the bounds are reached."""
        self._try({place: task for place, task in self.shortest.items() if task != CLOCK})
        size = len(self.shortest)
        while size:
            before = len(self.shortest)
            self._remove_parts(size)
            if size == 1:
                self._merge_pairs()
                if len(self.shortest) == before:
                    break
            size = max(1, size // 2)
        return self.shortest

    def _remove_parts(self, size: int) -> None:
        """Try without each part of that size, the last first."""
        places = list(self.shortest)
        for end in range(len(places), 0, -size):
            part = set(places[max(0, end - size) : end])
            self._try({place: task for place, task in self.shortest.items() if place not in part})

    def _merge_pairs(self) -> None:
        """Try to switch at once to the task to which a later deviation switches."""
        for place, later in combinations(list(self.shortest), 2):
            if place in self.shortest and later in self.shortest:
                merged = {**self.shortest, place: self.shortest[later]}
                del merged[later]
                self._try(merged)

    def _try(self, deviations: Deviations) -> None:
        is_shorter = len(deviations) < len(self.shortest)
        if not is_shorter or self.runs >= MAX_RUNS or self._steps >= MAX_STEPS_OF_ALL_RUNS:
            return
        steps, used = self._attempt(deviations)
        self.runs += 1
        self._steps += steps
        if used is not None:
            self.shortest = used
