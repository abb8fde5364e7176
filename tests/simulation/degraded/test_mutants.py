"""The attacks find every fault planted into the degraded mode."""

from collections.abc import Callable

import pytest

from tests.simulation.planted_faults import Mutant, check_planted_fault

from .mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_fault_is_found(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    check_planted_fault(mutant, monkeypatch, record_property, schedules=400)
