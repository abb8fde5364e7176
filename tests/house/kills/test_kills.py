"""kill -9 at any instant: what was acknowledged is there, once, and all is put in order again."""

from pathlib import Path

import pytest
import trio

from .ground import Ground, open_victims

CI_SEEDS = (1, 2)
CI_KILLS = 4
SOAK_PIECES = 100
SOAK_KILLS = 10  # of each piece: 1,000 in all


def kill_again_and_again(path: Path, seed: int, kills: int) -> None:
    ground = Ground(path, seed)
    with open_victims() as victims:
        for number in range(1, kills + 1):
            ground.kill(victims)
            if number % 4 == 0:  # else what this one left is put in order by the next victim
                trio.run(ground.look)


@pytest.mark.parametrize("seed", CI_SEEDS)
def test_nothing_that_was_acknowledged_is_lost_by_kills(seed: int, tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "state.db", seed, CI_KILLS)


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
def test_nothing_is_lost_by_a_thousand_kills(piece: int, tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "state.db", 100 + piece, SOAK_KILLS)
