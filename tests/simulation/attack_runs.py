"""Explorations of attacks, shared by all simulations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from actors.testing import FailingSeed, explore


def failing_seeds(
    attack: Callable[[], Awaitable[None]], seeds: Sequence[int], *, max_steps: int
) -> list[FailingSeed]:
    """Explore an attack, also with early time-outs, because a supervisor must survive each."""
    return explore(attack, seeds=seeds, max_failures=3, max_steps=max_steps, early_timeouts=True)


def seeds_of(piece: int, *, pieces: int, schedules: int) -> range:
    """Return the seeds of one piece of a soak."""
    size = schedules // pieces
    return range(piece * size, (piece + 1) * size)
