"""The examples run unchanged and print the expected lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs/examples").glob("*.py"))

# What each example must print: these lines, in this order, perhaps with others in between.
SHOWN = {
    "first_sessions.py": [
        "  the agent begins to compile",
        "  -> another input comes: queued",
        "  -> guidance for the running turn: staged",
        "  the agent has taken the guidance",
        "  the agent begins to test",
        "  -> the test takes too long, 1 call was stopped",
        "  the agent begins to package",
        "  the agent asks: May I deploy it?",
        "  -> allowed, once",
        "  the turn is completed: built and deployed, with the new logo and without the test",
        "  the turn is completed: water the plants: noted",
        "  it was started again, 1 restart: I am back",
        "  it is suspended",
        "  -> a message wakes it: good morning",
        "  it is stopped: user_cancelled",
        "  it is idle",
        "  it has said: I am back; good morning",
    ],
    "three_actors.py": [
        "  pantry starts",
        "  cook starts",
        "  waiter starts",
        "  cook ends: Crashed",
        "  waiter ends: Stopped",
        "  cook starts",
        "  cook gets an order: soup",
        "  -> bread, done by the cook",
        "  -> the bill, done by the waiter",
        "  cook ends: Crashed",
        "  waiter ends: Stopped",
        "  pantry ends: Stopped",
    ],
}


def test_every_example_has_expected_lines() -> None:
    assert [path.name for path in EXAMPLES] == sorted(SHOWN)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_its_lines(path: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (run.returncode, run.stderr) == (0, "")
    printed = iter(run.stdout.splitlines())
    missing = [line for line in SHOWN[path.name] if line not in printed]
    assert not missing, run.stdout
