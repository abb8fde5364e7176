"""Sessions keep their guarantees under every schedule tried."""

from collections.abc import Callable

import pytest

from tests.simulation.attack_runs import failing_seeds, seeds_of

from .attacks import ATTACKS, Attack

CI_SCHEDULES = 60
SOAK_SCHEDULES = 2_500  # of each attack: more than 20,000 in all
# A soak of one attack is split, so that all cores are used.
SOAK_PIECES = 2

all_attacks = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)


@all_attacks
def test_sessions_keep_their_guarantees(attack: Attack) -> None:
    assert failing_seeds(attack, range(CI_SCHEDULES), max_steps=20_000) == []


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
@all_attacks
def test_sessions_keep_their_guarantees_in_a_long_run(
    attack: Attack, piece: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = seeds_of(piece, pieces=SOAK_PIECES, schedules=SOAK_SCHEDULES)
    record_property("covered", f"{len(seeds)} schedules")

    assert failing_seeds(attack, seeds, max_steps=20_000) == []
