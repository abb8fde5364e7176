"""Looks for the schedule in which a planted fault shows."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

from actors.testing import explore


def first_seed_that_shows(
    attack: Callable[[], Awaitable[None]], says: str, *, schedules: int
) -> int | None:
    """The first seed whose failure has those words in it: they show which promise was broken."""
    for seed in range(schedules):
        for found in explore(attack, seeds=[seed], max_steps=20_000):
            if says in "".join(traceback.format_exception(found.error)):
                return seed
    return None
