"""Every fault planted into sessions is found, or the attacks would prove nothing."""

import traceback
from collections.abc import Callable

import pytest

from actors.testing import explore

from .mutants import MUTANTS, Mutant

SCHEDULES = 600


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_planted_fault_is_found(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    mutant.plant(monkeypatch)

    seed = first_seed_that_shows(mutant)

    assert seed is not None, f"{mutant.name} ({mutant.breaks}): missed {SCHEDULES} times"
    record_property("seed", seed)


def first_seed_that_shows(mutant: Mutant) -> int | None:
    for seed in range(SCHEDULES):
        for found in explore(mutant.found_by, seeds=[seed], max_steps=20_000):
            if mutant.says in "".join(traceback.format_exception(found.error)):
                return seed
    return None
