"""kill -9 at any instant: acknowledged requests are stored once, and recovery is complete."""

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from tests.support.crash_child import CrashPlan
from tests.support.crash_runner import CrashedFile, CrashRunner, open_crash_runner

CI_SEEDS = (1, 2)
CI_KILLS = 4
# Without a bound on stops, six seeds of six fell silent after 154 to 2,588 reports.
REPORTS_BEYOND_FULL_QUEUES = 3_000
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


def test_the_workload_goes_on_beside_turns_that_hang(tmp_path: Path) -> None:
    with open_crash_runner() as runner:
        plan = CrashPlan(str(tmp_path / "state.db"), seed=1)
        said = runner.run(plan, reports=REPORTS_BEYOND_FULL_QUEUES)

    assert [one for one in said if one["what"] == "broken"] == []


def test_a_child_that_reports_on_is_killed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its pid may belong to another process by the time the last report is read.
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *signalled: killed.append(signalled))
    reports = [{"what": "started", "pid": 77}, *[{"what": "sent"}] * 3, {"what": "exited"}]
    lines = io.StringIO("".join(f"{json.dumps(one)}\n" for one in reports))
    process = SimpleNamespace(stdin=io.StringIO(), stdout=lines, kill=lambda: None)

    said = CrashRunner(process).run(CrashPlan("state.db", 1), reports=1)  # type: ignore[arg-type]

    assert (len(said), killed) == (3, [(77, signal.SIGKILL)])
