"""Schedules with crashes find every fault planted into the recovery."""

import pytest

from tests.simulation.planted_faults import Mutant, first_failing_seed

from .mutants import MUTANTS

SCHEDULES = 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)

    assert first_failing_seed(mutant, schedules=SCHEDULES) is not None, mutant.breaks
