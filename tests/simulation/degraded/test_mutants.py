"""The attacks find every fault planted into the degraded mode."""

from collections.abc import Callable

import pytest

from tests.simulation.planted_faults import Mutant, first_failing_seed

from .mutants import MUTANTS

SCHEDULES = 400


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_fault_is_found(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    mutant.plant(monkeypatch)

    seed = first_failing_seed(mutant, schedules=SCHEDULES)

    assert seed is not None, f"{mutant.name} ({mutant.breaks}): missed {SCHEDULES} times"
    record_property("seed", seed)
