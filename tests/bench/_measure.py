"""Alternating pairs, and what they say.

Rule 1: ours and the peer run in turns, and the order is swapped from pair to pair, so that a
        machine that grows slower or busier does so for both.
Rule 2: the figure is the median of the ratios *within* the pairs, never a ratio of two separate
        runs.
Rule 3: a figure comes with its spread: the quartiles of those ratios.
"""

import gc
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import frozen

from tests.bench._row import Collector, Reach, Row, Sample


@frozen
class Pair:
    ours: float
    peer: float

    @property
    def ratio(self) -> float:
        return self.ours / self.peer


@frozen
class Figure:
    """What the pairs of one row say; ``low`` and ``high`` are the quartiles of the ratios."""

    ratio: float
    low: float
    high: float
    ours: float
    peer: float
    pairs: int

    def reached(self, reach: Reach | None) -> bool | None:
        return None if reach is None else reach.is_reached_by(self.ratio)

    def is_close_to(self, reach: Reach | None) -> bool:
        """Whether the quartiles lie on both sides: another run may well judge otherwise."""
        return reach is not None and self.low < reach.figure < self.high


def measure(row: Row, *, pairs: int) -> Figure:
    # Warm-up, thrown away: imports, caches, the interpreter's specialised bytecode.
    take_pair(row, ours_first=True)
    return figure_of([take_pair(row, ours_first=number % 2 == 0) for number in range(pairs)])


def take_pair(row: Row, *, ours_first: bool) -> Pair:
    if ours_first:
        ours = take_sample(row.ours, collector=row.collector)
        peer = take_sample(row.peer, collector=row.collector)
    else:
        peer = take_sample(row.peer, collector=row.collector)
        ours = take_sample(row.ours, collector=row.collector)
    return Pair(ours, peer)


def take_sample(sample: Sample, *, collector: Collector) -> float:
    gc.collect()
    if collector == "running":
        return sample()
    with paused_collector():
        return sample()


@contextmanager
def paused_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def figure_of(pairs: Sequence[Pair]) -> Figure:
    if not pairs:
        raise ValueError("no pairs were measured; ask for at least one")
    ratios = [pair.ratio for pair in pairs]
    low, ratio, high = quartiles(ratios)
    return Figure(
        ratio=ratio,
        low=low,
        high=high,
        ours=statistics.median(pair.ours for pair in pairs),
        peer=statistics.median(pair.peer for pair in pairs),
        pairs=len(pairs),
    )


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
