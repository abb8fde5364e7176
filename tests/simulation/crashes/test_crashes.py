"""Sessions and trees on a real file keep their guarantees over a crash between any two steps."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.simulation.attack_runs import failing_seeds
from tests.simulation.sessions.attacks import ATTACKS as ON_SESSIONS
from tests.simulation.trees.attacks import ATTACKS as ON_TREES

from .crash_runs import Attack, run_with_crashes

CI_SCHEDULES = 3
SOAK_SCHEDULES = 110  # of each attack: more than 2,000 in all
# The approximate number of writes of an attack.
MAX_WRITES = 60
MAX_STEPS = 60_000

all_attacks = pytest.mark.parametrize(
    "attack", [*ON_SESSIONS, *ON_TREES], ids=lambda attack: attack.__name__
)


def crashing(attack: Attack) -> Callable[[], Awaitable[None]]:
    """Return the attack with crashes between its writes."""
    return partial(run_with_crashes, attack, MAX_WRITES)


@all_attacks
def test_guarantees_hold_after_a_crash(attack: Attack) -> None:
    seeds = range(CI_SCHEDULES)

    assert failing_seeds(crashing(attack), seeds, max_steps=MAX_STEPS) == []


@pytest.mark.soak
@all_attacks
def test_guarantees_hold_after_many_crashes(
    attack: Attack, record_property: Callable[[str, object], None]
) -> None:
    seeds = range(CI_SCHEDULES, CI_SCHEDULES + SOAK_SCHEDULES)
    record_property("covered", f"{len(seeds)} schedules with crashes")

    assert failing_seeds(crashing(attack), seeds, max_steps=MAX_STEPS) == []
