"""Sessions with agent processes keep their guarantees under every schedule tried."""

import pytest

from actors.testing import FailingSeed, explore

from .attacks import ATTACKS, EXACT, Attack

CI_SCHEDULES = 13  # of each attack: about a hundred in all
SOAK_SCHEDULES = 1_000
# A soak of one attack is split, so that all cores are used.
SOAK_PIECES = 2
MAX_STEPS = 40_000

all_attacks = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)


def failures(attack: Attack, seeds: range) -> list[FailingSeed]:
    """Explore with exact time in half of the schedules: with early timeouts few agents start."""
    exact = seeds if attack in EXACT else seeds[1::2]
    found = explore(attack, seeds=exact, max_failures=3, max_steps=MAX_STEPS, early_timeouts=False)
    hasty = [seed for seed in seeds if seed not in exact]
    return found + explore(
        attack, seeds=hasty, max_failures=3, max_steps=MAX_STEPS, early_timeouts=True
    )


@all_attacks
def test_sessions_with_processes_keep_their_guarantees(attack: Attack) -> None:
    assert failures(attack, range(CI_SCHEDULES)) == []


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
@all_attacks
def test_sessions_with_processes_keep_their_guarantees_in_a_long_run(
    attack: Attack, piece: int
) -> None:
    size = SOAK_SCHEDULES // SOAK_PIECES

    assert failures(attack, range(piece * size, (piece + 1) * size)) == []
