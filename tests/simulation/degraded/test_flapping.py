"""Sessions keep their guarantees with a degraded store under every schedule tried."""

from collections.abc import Callable

import pytest

from tests.simulation.attack_runs import failing_seeds, seeds_of

from .attacks import ATTACKS, Attack, exit_while_degraded

CI_SCHEDULES = 25
SOAK_SCHEDULES = 2_000
# A soak of one attack is split, so that all cores are used.
SOAK_PIECES = 2
MAX_STEPS = 60_000
# The exit stopped the writer of a failed store, and a session that still ran, or started, crashed.
FOUND_EXITS = (14, 128, 311, 713, 1106, 1564)

all_attacks = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)


@all_attacks
def test_sessions_keep_their_guarantees_when_the_store_degrades(attack: Attack) -> None:
    assert failing_seeds(attack, range(CI_SCHEDULES), max_steps=MAX_STEPS) == []


def test_an_exit_with_a_failed_store_crashes_no_session() -> None:
    assert failing_seeds(exit_while_degraded, FOUND_EXITS, max_steps=MAX_STEPS) == []


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
@all_attacks
def test_sessions_keep_their_guarantees_in_a_long_run(
    attack: Attack, piece: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = seeds_of(piece, pieces=SOAK_PIECES, schedules=SOAK_SCHEDULES)
    record_property("covered", f"{len(seeds)} schedules")

    assert failing_seeds(attack, seeds, max_steps=MAX_STEPS) == []
