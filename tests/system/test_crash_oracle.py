"""The crash oracle detects the violations that it checks for."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.crash_child import CrashPlan
from tests.support.crash_oracle import problems_after, problems_of, read_store
from tests.support.crash_runner import open_crash_runner

MOST_KILLS = 20
# Ways to damage a file, and part of the problem that is reported.
TAMPERINGS = {
    "DELETE FROM records WHERE seq = 2": "numbered",
    "DELETE FROM sessions WHERE id = (SELECT min(id) FROM sessions)": "no row",
    "UPDATE sessions SET row = json_set(row, '$.turns', 99)": "not what its records say",
    """
    INSERT INTO records (session_id, seq, at, turn_id, kind, body)
    SELECT session_id, (SELECT max(seq) + 1 FROM records AS o WHERE o.session_id = r.session_id),
           at, turn_id, kind, body
    FROM records AS r WHERE kind = 'input_accepted' LIMIT 1
    """: "accepted 2 times",
}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder left by a killed supervisor, with open turns.

    The kill may hit a moment between two turns; then another supervisor is killed.
    """
    with open_crash_runner() as runner:
        for seed in range(5, 5 + MOST_KILLS):
            folder = tmp_path_factory.mktemp("left")
            runner.run(CrashPlan(str(folder / "state.db"), seed=seed), reports=60)
            if read_store(folder / "state.db").open_turns:
                return folder
    raise AssertionError(f"{MOST_KILLS} killed supervisors left no open turn")


@pytest.fixture
def path(left: Path, tmp_path: Path) -> Path:
    """Return a copy of that file, to be damaged."""
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    return tmp_path / "state.db"


def test_the_oracle_finds_no_problem_after_a_kill(path: Path) -> None:
    found = read_store(path)

    assert problems_of(found) == []
    assert found.open_turns


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_the_oracle_reports_tampered_data(path: Path, tampering: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(tampering)

    assert TAMPERINGS[tampering] in " ".join(problems_of(read_store(path)))


def test_the_oracle_reports_an_open_turn(path: Path) -> None:
    found = read_store(path)

    assert "its ends are []" in " ".join(problems_after(found, found))
