"""Sessions whose agents are processes keep their promises under every schedule tried."""

import pytest

from actors.testing import FailingSeed, explore

from .attacks import ATTACKS, EXACT, Attack

CI_SCHEDULES = 13  # of each attack: about a hundred in all
SOAK_SCHEDULES = 1_000
# A soak of one attack is cut into pieces, so that all cores have something to do.
SOAK_PIECES = 2
MAX_STEPS = 40_000

all_attacks = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)


def failures(attack: Attack, seeds: range) -> list[FailingSeed]:
    """Of half of the schedules the time is exact: if time-outs fire early, few agents come up."""
    exact = seeds if attack in EXACT else seeds[1::2]
    found = explore(attack, seeds=exact, max_failures=3, max_steps=MAX_STEPS, early_timeouts=False)
    hasty = [seed for seed in seeds if seed not in exact]
    return found + explore(attack, seeds=hasty, max_failures=3, max_steps=MAX_STEPS)


@all_attacks
def test_no_promise_of_a_session_of_processes_is_broken(attack: Attack) -> None:
    assert failures(attack, range(CI_SCHEDULES)) == []


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
@all_attacks
def test_no_promise_of_a_session_of_processes_is_broken_in_a_long_run(
    attack: Attack, piece: int
) -> None:
    size = SOAK_SCHEDULES // SOAK_PIECES

    assert failures(attack, range(piece * size, (piece + 1) * size)) == []
