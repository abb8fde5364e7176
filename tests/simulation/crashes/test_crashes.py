"""Sessions and trees on a real file keep their guarantees over a crash between any two steps."""

import pytest

from actors.testing import explore
from tests.simulation.sessions.attacks import ATTACKS as ON_SESSIONS
from tests.simulation.trees.attacks import ATTACKS as ON_TREES

from .crash_runs import Attack, run_with_crashes

CI_SCHEDULES = 3
SOAK_SCHEDULES = 110  # of each attack: more than 2,000 in all
# The approximate number of writes of an attack.
MAX_WRITES = 60

all_attacks = pytest.mark.parametrize(
    "attack", [*ON_SESSIONS, *ON_TREES], ids=lambda attack: attack.__name__
)


@all_attacks
def test_guarantees_hold_after_a_crash(attack: Attack) -> None:
    seeds = range(CI_SCHEDULES)

    assert (
        explore(
            run_with_crashes, attack, MAX_WRITES, seeds=seeds, max_steps=60_000, early_timeouts=True
        )
        == []
    )


@pytest.mark.soak
@all_attacks
def test_guarantees_hold_after_many_crashes(attack: Attack) -> None:
    seeds = range(CI_SCHEDULES, CI_SCHEDULES + SOAK_SCHEDULES)

    found = explore(
        run_with_crashes,
        attack,
        MAX_WRITES,
        seeds=seeds,
        max_failures=3,
        max_steps=60_000,
        early_timeouts=True,
    )
    assert found == []
