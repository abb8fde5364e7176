"""Sessions with agent processes keep their guarantees under every schedule tried."""

from collections.abc import Callable

import pytest

from actors.testing import FailingSeed, explore
from tests.simulation.attack_runs import failing_seeds, seeds_of

from .attacks import ATTACKS, EXACT, Attack, kill_processes, steer_at_turn_ends, steer_processes

CI_SCHEDULES = 13  # of each attack: about a hundred in all
SOAK_SCHEDULES = 1_000
# A soak of one attack is split, so that all cores are used.
SOAK_PIECES = 2
MAX_STEPS = 40_000

all_attacks = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)


def failures(attack: Attack, seeds: range) -> list[FailingSeed]:
    """Explore with exact time in half of the schedules: with early timeouts few agents start."""
    exact = seeds if attack in EXACT else seeds[1::2]
    found = explore(attack, seeds=exact, max_failures=3, max_steps=MAX_STEPS)
    hasty = range(0) if attack in EXACT else seeds[::2]
    return found + failing_seeds(attack, hasty, max_steps=MAX_STEPS)


@all_attacks
def test_sessions_with_processes_keep_their_guarantees(attack: Attack) -> None:
    assert failures(attack, range(CI_SCHEDULES)) == []


def test_a_turn_begun_by_late_steering_ends_before_the_next_prompt() -> None:
    assert explore(steer_processes, seeds=[639], max_steps=MAX_STEPS) == []
    assert failing_seeds(steer_processes, [1442], max_steps=MAX_STEPS) == []


def test_steering_whose_write_waits_for_room_is_queued_again() -> None:
    assert failing_seeds(steer_processes, [400, 626], max_steps=MAX_STEPS) == []


def test_steering_for_an_agent_that_has_exited_has_not_left() -> None:
    assert explore(kill_processes, seeds=[439], max_steps=MAX_STEPS) == []
    assert failing_seeds(kill_processes, [338], max_steps=MAX_STEPS) == []


def test_an_answer_to_steering_may_come_as_the_wait_for_it_ends() -> None:
    assert explore(steer_at_turn_ends, seeds=[416, 491], max_steps=MAX_STEPS) == []


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
@all_attacks
def test_sessions_with_processes_keep_their_guarantees_in_a_long_run(
    attack: Attack, piece: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = seeds_of(piece, pieces=SOAK_PIECES, schedules=SOAK_SCHEDULES)
    record_property("covered", f"{len(seeds)} schedules")

    assert failures(attack, seeds) == []
