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


def check_planted_fault(
    mutant: Mutant,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    *,
    schedules: int,
    max_steps: int = 20_000,
    exact_time_for_odd_seeds: bool = False,
) -> None:
    """Plant the fault, explore schedules until one reveals it, and record the seed."""
    mutant.plant(monkeypatch)
    for seed in range(schedules):
        early_timeouts = not (exact_time_for_odd_seeds and seed % 2)
        found = explore(
            mutant.found_by,
            seeds=[seed],
            max_steps=max_steps,
            early_timeouts=early_timeouts,
            shrink=False,
        )
        if any(mutant.says in "".join(traceback.format_exception(one.error)) for one in found):
            record_property("seed", seed)
            return
    raise AssertionError(f"{mutant.name} ({mutant.breaks}): missed {schedules} times")
