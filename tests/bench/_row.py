"""What a row of the benchmark is.

A row names two ways of doing the same thing, ours and a peer's. Each way is a function that sets
up, warms up, measures once and returns one number; `_measure` calls the two in turns. A new row is
such a function and one more `Row` in the `ROWS` of its file.
"""

import importlib.util
from collections.abc import Callable
from typing import Literal

from attrs import field, frozen

Better = Literal["bigger", "smaller"]
Collector = Literal["paused", "running"]
Sample = Callable[[], float]


@frozen
class Reach:
    """The figure a ratio ours/peer has to reach, and from which side."""

    better: Better
    figure: float

    def is_reached_by(self, ratio: float) -> bool:
        return ratio >= self.figure if self.better == "bigger" else ratio <= self.figure

    def __str__(self) -> str:
        return f"{'>=' if self.better == 'bigger' else '<='} {self.figure:g}x"


def at_least(figure: float) -> Reach:
    return Reach("bigger", figure)


def at_most(figure: float) -> Reach:
    return Reach("smaller", figure)


def always_measurable() -> str | None:
    return None


def unless_installed(module: str) -> Callable[[], str | None]:
    """For `Row.obstacle`: the peer is missing."""

    def obstacle() -> str | None:
        return None if importlib.util.find_spec(module) else f"{module} is not installed"

    return obstacle


@frozen(kw_only=True)
class Row:
    name: str
    against: str
    ours: Sample
    peer: Sample
    unit: str
    # None: shown for information, there is nothing to reach.
    reach: Reach | None = None
    # Says why the row cannot be measured here, or None. Asked once, before the first pair.
    obstacle: Callable[[], str | None] = field(default=always_measurable)
    # Paused: collected before each sample, then off, so neither side pays for the other's garbage.
    collector: Collector = "paused"
    # Maximum number of pairs, for a row whose samples take long and differ little.
    max_pairs: int | None = None

    @property
    def title(self) -> str:
        return f"{self.name} vs {self.against}"
