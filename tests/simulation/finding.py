"""What a planted fault is, and how the schedule is found in which it shows."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

import attrs
import pytest

from actors.testing import explore


@attrs.frozen
class Mutant:
    """One planted fault: its name, what it breaks, who should find it, and by which words.

    Any failure is a find, but only the right words show that the right promise was checked.
    """

    name: str
    breaks: str
    found_by: Callable[[], Awaitable[None]]
    says: str
    plant: Callable[[pytest.MonkeyPatch], None]


def first_seed_that_shows(mutant: Mutant, *, schedules: int) -> int | None:
    """The first seed whose failure has those words in it: they show which promise was broken."""
    for seed in range(schedules):
        for found in explore(mutant.found_by, seeds=[seed], max_steps=20_000):
            if mutant.says in "".join(traceback.format_exception(found.error)):
                return seed
    return None
