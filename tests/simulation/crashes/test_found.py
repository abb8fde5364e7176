"""Schedules with crashes that once broke a guarantee."""

import pytest

from tests.simulation.attack_runs import failing_seeds
from tests.simulation.trees.attacks import ATTACKS

from .test_crashes import MAX_STEPS, crashing


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        # The tree woke a session before recovery started it; its recheck stayed due for ever.
        ("wake_into_full_slots", 80),
    ],
)
def test_a_found_schedule_with_crashes_keeps_its_guarantees(name: str, seed: int) -> None:
    [attack] = [attack for attack in ATTACKS if attack.__name__ == name]

    assert failing_seeds(crashing(attack), [seed], max_steps=MAX_STEPS) == []
