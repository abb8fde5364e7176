"""Sessions and trees on a real file keep their promises over a death between any two steps."""

import pytest

from actors.testing import explore
from tests.simulation.sessions.attacks import ATTACKS as ON_SESSIONS
from tests.simulation.trees.attacks import ATTACKS as ON_TREES

from .lives import Attack, live_again_and_again

CI_SCHEDULES = 3
SOAK_SCHEDULES = 110  # of each attack: more than 2,000 in all
# An attack comes to about so many writes.
MOST_WRITES = 60

all_attacks = pytest.mark.parametrize(
    "attack", [*ON_SESSIONS, *ON_TREES], ids=lambda attack: attack.__name__
)


@all_attacks
def test_no_promise_is_broken_by_a_death(attack: Attack) -> None:
    seeds = range(CI_SCHEDULES)

    assert explore(live_again_and_again, attack, MOST_WRITES, seeds=seeds, max_steps=60_000) == []


@pytest.mark.soak
@all_attacks
def test_no_promise_is_broken_by_many_deaths(attack: Attack) -> None:
    seeds = range(CI_SCHEDULES, CI_SCHEDULES + SOAK_SCHEDULES)

    found = explore(
        live_again_and_again, attack, MOST_WRITES, seeds=seeds, max_failures=3, max_steps=60_000
    )
    assert found == []
