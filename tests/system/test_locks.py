"""One supervisor for each file, and readers beside it, with real processes."""

import errno
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import StoreLocked
from tests.support.crash_child import CrashPlan
from tests.support.crash_oracle import problems_of, read_store
from tests.support.crash_runner import CrashRunner, idle_agent, open_crash_runner


@pytest.fixture
def runner() -> Iterator[CrashRunner]:
    with open_crash_runner() as opened:
        yield opened


async def open_and_count(path: Path) -> int:
    async with supervisor.open(path, agents=[idle_agent]) as sup:
        return (await sup.stats()).sessions


def test_a_second_supervisor_is_refused_with_the_owner_and_start_time(
    runner: CrashRunner, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    with runner.running(CrashPlan(str(path), seed=1)) as pid, pytest.raises(StoreLocked) as refused:
        trio.run(open_and_count, path)

    assert re.search(rf"process {pid}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", str(refused.value))
    assert refused.value.hint


def test_the_lock_is_free_after_its_holder_was_killed(runner: CrashRunner, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for seed in range(3):
        with runner.running(CrashPlan(str(path), seed=seed)):
            pass

        trio.run(open_and_count, path)


def test_a_refused_supervisor_has_changed_nothing(runner: CrashRunner, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with runner.running(CrashPlan(str(path), seed=1)) as pid:
        for _ in range(3):
            with pytest.raises(StoreLocked, match=str(pid)):
                trio.run(open_and_count, path)

    assert problems_of(read_store(path)) == []


def test_other_processes_read_a_file_while_its_supervisor_writes(
    runner: CrashRunner, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    seen: list[dict[str, int]] = [{}]
    with runner.running(CrashPlan(str(path), seed=1)):
        while len(seen) < 6:
            found = read_store(path)
            assert problems_of(found) == []
            counts = {session: len(records) for session, records in found.records.items()}
            # A session may have been deleted meanwhile; another one never loses records.
            assert all(counts[one] >= seen[-1][one] for one in counts.keys() & seen[-1].keys())
            if counts != seen[-1]:
                seen.append(counts)

    assert problems_of(read_store(path)) == []


def test_files_of_a_killed_supervisor_are_readable_only_by_the_owner(
    runner: CrashRunner, tmp_path: Path
) -> None:
    with runner.running(CrashPlan(str(tmp_path / "state.db"), seed=1)):
        pass

    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert modes.keys() >= {"state.db", "state.db-wal", "state.db.lock"}
    assert set(modes.values()) == {0o600}


def test_one_of_many_supervisors_gets_the_lock_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with ExitStack() as stack:
        runners = [stack.enter_context(open_crash_runner()) for _ in range(3)]
        with runners[0].running(CrashPlan(str(path), seed=1)):
            pass
        got_in = [
            one.try_to_open(CrashPlan(str(path), seed=2 + n)) for n, one in enumerate(runners)
        ]

    assert sorted(got_in) == ["broken", "broken", "opened"]


def test_a_lock_without_a_signature_is_still_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as on a full disk: the signature only informs people."""

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "pwrite", fail)

    assert trio.run(open_and_count, tmp_path / "state.db") == 0


FORKS = """
import os, signal, sys, trio, supervisor

async def main():
    async with supervisor.open(sys.argv[1]):
        child = os.fork()
        if child == 0:
            os.close(1)
            signal.pause()
        print(child, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


def test_a_forked_child_of_a_killed_supervisor_does_not_hold_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    said = subprocess.run(
        [sys.executable, "-c", FORKS, str(path)], stdout=subprocess.PIPE, check=False, timeout=60
    )
    try:
        assert trio.run(open_and_count, path) == 0
    finally:
        os.kill(int(said.stdout), signal.SIGKILL)
