"""Faults in the recovery are found by schedules with deaths in them."""

import pytest

from tests.simulation.finding import Mutant, first_seed_that_shows

from .mutants import MUTANTS

SCHEDULES = 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)

    assert first_seed_that_shows(mutant, schedules=SCHEDULES) is not None, mutant.breaks
