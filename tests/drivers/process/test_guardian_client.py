"""Deaths of guardians and supervisors, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.process import orphans
from supervisor.drivers.process.contained import ContainedProcesses, SentSignal
from supervisor.drivers.process.fork_server import _PROGRAM, ForkServer
from supervisor.drivers.process.orphans import has_live_supervisor, kill_orphans
from supervisor.drivers.process.processes import LaunchFailed, ProcessExit
from tests.support.process_programs import (
    ALL_KINDS,
    FORK_ALL_KINDS,
    PATIENCE_SECONDS,
    alive,
    descendants_of,
    guardian_of,
    known,
    python,
    running,
    shell,
    stop,
    wait_dead,
)

# The guardian -----------------------------------------------------------------------------


async def test_killing_the_guardian_kills_the_agent_and_its_children(
    processes: ContainedProcesses, signals: list[SentSignal]
) -> None:
    async with (
        running(processes, python(FORK_ALL_KINDS)) as lines,
        running(processes, shell("cat")) as other,
    ):
        everyone = await lines.pids(ALL_KINDS)
        os.kill(guardian_of(lines.process.identity), signal.SIGKILL)

        assert await lines.process.wait() == ProcessExit(None, guarded=False)
        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()
        assert alive(everyone) == []
        assert await lines.process.receive() == b""
        assert is_alive(other.process.identity)
        assert {sent.pid for sent in signals} <= {one.pid for one in everyone}


async def test_a_process_without_marker_is_found_by_parent_or_session(
    processes: ContainedProcesses,
) -> None:
    program = (
        "def hide(): os.execve('/bin/sh', ['sh', '-c', 'echo $$; read x'], {})\n"
        "child(hide); child(lambda: (os.setsid(), hide())); sleep()"
    )
    async with running(processes, python(program)) as lines:
        hidden = await lines.pids(2)
        os.kill(guardian_of(lines.process.identity), signal.SIGKILL)

        assert await lines.process.wait_gone(PATIENCE_SECONDS) == ()
        assert alive(hidden) == []


async def test_an_agent_never_runs_when_its_guardian_dies_first(
    processes: ContainedProcesses, tmp_path: Path
) -> None:
    seen: list[ProcessIdentity] = []

    async def kill_guardian(identity: ProcessIdentity) -> None:
        seen.append(identity)
        os.kill(guardian_of(identity), signal.SIGKILL)
        await trio.lowlevel.checkpoint()

    with pytest.raises(LaunchFailed, match="guardian died"):
        async with running(processes, shell(f"touch {tmp_path}/action"), kill_guardian):
            raise AssertionError("it runs")

    assert alive(seen) == []
    assert not (tmp_path / "action").exists()


async def test_a_guardian_that_does_not_start_in_time_fails_the_launch(
    fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "supervisor.drivers.process.fork_server._PROGRAM"
    monkeypatch.setattr(module, "import signal; signal.pause()")
    processes = ContainedProcesses(fork_server, start_seconds=0.05, kill_seconds=0.05)

    with pytest.raises(LaunchFailed, match=r"not ready within 0\.05 s"):
        async with running(processes, shell("cat")):
            raise AssertionError("it runs")


async def test_a_guardian_that_fails_reports_it(
    processes: ContainedProcesses,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = "guardian.launch.read_launch = None; guardian.main()"
    program = _PROGRAM.replace("guardian.main()", broken)
    monkeypatch.setattr("supervisor.drivers.process.fork_server._PROGRAM", program)

    with pytest.raises(LaunchFailed, match="guardian died"):
        async with running(processes, shell("cat")):
            raise AssertionError("it runs")

    assert "broken TypeError" in caplog.text


# The supervisor ---------------------------------------------------------------------------

# A supervisor with one agent, which shows what that says, and the agent itself; then it waits.
SUPERVISOR = """
import os, sys, trio
from supervisor.drivers.process.contained import open_processes
from tests.support.process_programs import FORK_ALL_KINDS, python

async def before(identity):
    {before}

async def main():
    launch = python({program})
    async with (
        open_processes() as processes,
        processes.open(launch, before_exec=before) as process,
    ):
        {during}
        while piece := await process.receive():
            os.write(1, piece)
        await trio.sleep_forever()

trio.run(main)
"""
ROOT = Path(__file__).parents[3]


@contextmanager
def supervisor(
    *, program: str = "FORK_ALL_KINDS", before: str = "pass", during: str = "pass"
) -> Iterator[subprocess.Popen[str]]:
    """Another supervisor, with one agent."""
    text = SUPERVISOR.format(before=before, during=during, program=program)
    with subprocess.Popen(
        [sys.executable, "-c", text], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_pids(process: subprocess.Popen[str], count: int) -> list[ProcessIdentity]:
    assert process.stdout is not None
    return [known(int(process.stdout.readline())) for _ in range(count)]


def test_no_process_is_left_after_the_supervisor_was_killed() -> None:
    with supervisor() as process:
        everyone = read_pids(process, ALL_KINDS)
        everyone += descendants_of(process.pid)  # the guardian and its fork server too
        process.kill()

        wait_dead(everyone)


def test_a_fork_of_the_supervisor_does_not_keep_its_agents_alive() -> None:
    # It holds copies of all pipes, the lifeline too.
    fork = "pid = os.fork(); pid or os.read(os.pipe()[0], 1); os.write(1, f'{pid}\\n'.encode())"
    with supervisor(during=fork) as process:
        (copy,) = read_pids(process, 1)
        read_pids(process, ALL_KINDS)
        everyone = [one for one in descendants_of(process.pid) if one != copy]
        process.kill()
        try:
            wait_dead(everyone)
            assert is_alive(copy)
        finally:
            os.kill(copy.pid, signal.SIGKILL)


def test_an_agent_never_runs_when_its_supervisor_is_killed_first(tmp_path: Path) -> None:
    before = "print(identity.pid, flush=True); await trio.sleep_forever()"
    touch = repr(f"open({str(tmp_path / 'action')!r}, 'w')")
    with supervisor(program=touch, before=before) as process:
        everyone = read_pids(process, 1)
        process.kill()

        wait_dead(everyone)

    assert not (tmp_path / "action").exists()


def test_a_stopped_guardian_still_kills_after_the_supervisor_died() -> None:
    with supervisor() as process:
        everyone = read_pids(process, ALL_KINDS)
        guardian = known(guardian_of(everyone[0]))
        # The kernel continues the guardian only if it is stopped when the supervisor dies.
        stop(guardian)
        process.kill()

        wait_dead([*everyone, guardian])


@pytest.fixture
def nobody_owns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a dead supervisor; with a really dead one the test would come too late."""
    monkeypatch.setattr(orphans, "has_live_supervisor", lambda _: False)


@pytest.mark.usefixtures("nobody_owns")
def test_orphans_of_a_guardian_that_stays_stopped_are_killed_at_start() -> None:
    with supervisor() as process:
        everyone = read_pids(process, ALL_KINDS)
        guardian = known(guardian_of(everyone[0]))
        stop(known(process.pid))  # so that the supervisor does not continue the guardian
        stop(guardian)

        trio.run(partial(kill_orphans, [everyone[0]], wait_seconds=4.0))

        assert alive([*everyone, guardian]) == []


@pytest.mark.usefixtures("nobody_owns")
def test_a_guardian_that_is_still_killing_gets_time_at_start() -> None:
    with supervisor() as process:
        everyone = read_pids(process, ALL_KINDS)
        guardian = known(guardian_of(everyone[0]))

        fates = trio.run(partial(kill_orphans, [everyone[0]], wait_seconds=PATIENCE_SECONDS))

    # Orphans of tests that run at the same time may be among the results.
    assert [fate.identity for fate in fates if fate.identity in everyone] == [everyone[0]]
    assert alive([*everyone, guardian]) == []


@pytest.mark.parametrize("stopped", ["nobody", "guardian"])
def test_processes_of_a_live_supervisor_are_not_killed(stopped: str) -> None:
    with supervisor() as process:
        everyone = read_pids(process, ALL_KINDS)
        guardian = known(guardian_of(everyone[0]))
        if stopped == "guardian":
            stop(guardian)

        fates = trio.run(kill_orphans, [everyone[0]])

        outcomes = {fate.identity: fate.outcome for fate in fates}
        assert {one: outcomes[one] for one in everyone if one in outcomes} == {everyone[0]: "owned"}
        assert all(map(is_alive, [*everyone, guardian]))
        process.kill()
        process.wait()
        assert not has_live_supervisor(everyone[0])


def test_a_zombie_agent_of_a_stopped_guardian_has_a_live_supervisor() -> None:
    with supervisor() as process:
        everyone = read_pids(process, ALL_KINDS)
        guardian = known(guardian_of(everyone[0]))
        stop(known(process.pid))  # so that the supervisor does not continue the guardian
        stop(guardian)
        os.kill(everyone[0].pid, signal.SIGKILL)
        wait_dead(everyone[:1])

        trio.run(kill_orphans, [everyone[0]])

        assert all(map(is_alive, [*everyone[1:], guardian]))


def test_a_process_that_is_not_an_agent_has_no_supervisor() -> None:
    ourselves = known(os.getpid())

    assert not has_live_supervisor(ourselves)
    assert not has_live_supervisor(attrs.evolve(ourselves, pid=4_000_001))


async def test_the_exit_of_an_agent_that_stopped_its_guardian_is_reported(
    processes: ContainedProcesses,
) -> None:
    async with running(processes, shell("kill -STOP $PPID; exit 3")) as lines:
        with trio.fail_after(PATIENCE_SECONDS):
            assert await lines.process.wait() == ProcessExit(3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
async def test_a_guardian_ignores_foreign_signals(
    processes: ContainedProcesses, number: signal.Signals
) -> None:
    async with running(processes, shell("cat")) as lines:
        os.kill(guardian_of(lines.process.identity), number)
        await lines.process.send(b"still there\n")

        assert await lines.next() == "still there"
        lines.process.terminate()
        assert await lines.process.wait() == ProcessExit(None, signal=signal.SIGTERM)
