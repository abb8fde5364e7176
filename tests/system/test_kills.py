"""kill -9 at any instant: acknowledged requests are stored once, and recovery is complete."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from tests.support.crash_runner import CrashedFile, open_crash_runner

CI_SEEDS = (1, 2)
CI_KILLS = 4
SOAK_PIECES = 100
SOAK_KILLS = 10  # of each piece: 1,000 in all


def kill_again_and_again(path: Path, seed: int, kills: int) -> None:
    file = CrashedFile(path, seed)
    with open_crash_runner() as runner:
        for number in range(1, kills + 1):
            file.kill(runner)
            if number % 4 == 0:  # otherwise the next child recovers the file
                trio.run(file.check)


@pytest.mark.parametrize("seed", CI_SEEDS)
def test_nothing_that_was_acknowledged_is_lost_by_kills(seed: int, tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "state.db", seed, CI_KILLS)


@pytest.mark.soak
@pytest.mark.parametrize("piece", range(SOAK_PIECES))
def test_nothing_is_lost_by_a_thousand_kills(
    piece: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("covered", f"{SOAK_KILLS} kills")
    kill_again_and_again(tmp_path / "state.db", 100 + piece, SOAK_KILLS)
