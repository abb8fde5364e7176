"""Planted faults, and the search for a schedule that reveals one."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

import attrs
import pytest

from actors.testing import explore


@attrs.frozen
class Mutant:
    """One planted fault: name, broken guarantee, attack that finds it, expected message.

    Any failure is a find; only the expected message shows that the right guarantee was checked.
    """

    name: str
    breaks: str
    found_by: Callable[[], Awaitable[None]]
    says: str
    plant: Callable[[pytest.MonkeyPatch], None]


def first_failing_seed(mutant: Mutant, *, schedules: int) -> int | None:
    """Return the first seed whose failure contains the expected message; None without one."""
    for seed in range(schedules):
        for found in explore(mutant.found_by, seeds=[seed], max_steps=20_000):
            if mutant.says in "".join(traceback.format_exception(found.error)):
                return seed
    return None
