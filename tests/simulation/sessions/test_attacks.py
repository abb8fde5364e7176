"""Sessions keep their guarantees under every schedule tried."""

import pytest

from actors.testing import explore

from .attacks import ATTACKS, Attack

CI_SCHEDULES = 60
SOAK_SCHEDULES = 2_500  # of each attack: more than 20,000 in all
# A soak of one attack is split, so that all cores are used.
SOAK_PIECES = 2

all_attacks = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)


@all_attacks
def test_sessions_keep_their_guarantees(attack: Attack) -> None:
    assert (
        explore(
            attack, seeds=range(CI_SCHEDULES), max_failures=3, max_steps=20_000, early_timeouts=True
        )
        == []
    )


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
@all_attacks
def test_sessions_keep_their_guarantees_in_a_long_run(attack: Attack, piece: int) -> None:
    size = SOAK_SCHEDULES // SOAK_PIECES
    seeds = range(piece * size, (piece + 1) * size)

    assert explore(attack, seeds=seeds, max_failures=3, max_steps=20_000, early_timeouts=True) == []
