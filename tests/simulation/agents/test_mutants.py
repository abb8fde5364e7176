"""The attacks find every fault planted into the ACP driver."""

import traceback
from collections.abc import Callable

import pytest

from actors.testing import explore
from tests.simulation.planted_faults import Mutant

from .mutants import MUTANTS

SCHEDULES = 600
MAX_STEPS = 40_000


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_fault_is_found(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    mutant.plant(monkeypatch)

    seed = next((seed for seed in range(SCHEDULES) if shows(mutant, seed)), None)

    assert seed is not None, f"{mutant.name} ({mutant.breaks}): missed {SCHEDULES} times"
    record_property("seed", seed)


def shows(mutant: Mutant, seed: int) -> bool:
    """Return True if the schedule shows the fault; time is exact for odd seeds."""
    found = explore(
        mutant.found_by, seeds=[seed], max_steps=MAX_STEPS, early_timeouts=seed % 2 == 0
    )
    return any(mutant.says in "".join(traceback.format_exception(one.error)) for one in found)
