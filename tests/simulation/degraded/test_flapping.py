"""Sessions keep their promises over a store that comes and goes, under every schedule tried."""

import pytest

from actors.testing import explore

from .attacks import ATTACKS, Attack

CI_SCHEDULES = 25
SOAK_SCHEDULES = 2_000
# A soak of one attack is cut into pieces, so that all cores have something to do.
SOAK_PIECES = 2
MAX_STEPS = 60_000

all_attacks = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)


@all_attacks
def test_no_promise_is_broken_by_a_store_that_comes_and_goes(attack: Attack) -> None:
    assert explore(attack, seeds=range(CI_SCHEDULES), max_failures=3, max_steps=MAX_STEPS) == []


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
@all_attacks
def test_no_promise_is_broken_in_a_long_run(attack: Attack, piece: int) -> None:
    size = SOAK_SCHEDULES // SOAK_PIECES
    seeds = range(piece * size, (piece + 1) * size)

    assert explore(attack, seeds=seeds, max_failures=3, max_steps=MAX_STEPS) == []
