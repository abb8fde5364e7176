"""A failure inside the daemon ends its process, so that a restart policy applies."""

from __future__ import annotations

import itertools
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest
import trio

from supervisor.client import connect
from supervisor.daemon import ExitCode
from supervisor.daemon.listeners import hold_socket_lock
from supervisor.drivers.identity import ProcessIdentity
from supervisor.store.sqlite.lock import locked
from tests.support.daemon_in_process import Home, temporary_home
from tests.support.daemon_process import AGENTS, Daemon, starting
from tests.support.process_programs import known, wait_dead

SETTINGS: Final = """
[settings]
exit_seconds = 0.05
[settings.ladder]
ask_seconds = 0.05
close_seconds = 0.05
terminate_seconds = 0.05
kill_seconds = 0.05
"""
# Every task that runs as long as the daemon.
TASKS: Final = (
    "actors._message:Timeouts.run",
    "supervisor.http_server.connections:Connections._accept",
    "supervisor.daemon.metrics:DaemonMetrics._ping",
    "supervisor.daemon.metrics:DaemonMetrics.run",
    "supervisor.daemon.metrics:measure_lag",
    "supervisor.daemon.reload:Reloader.run",
    "supervisor.daemon.service:_Daemon._cancel_on_fast_leave",
    "supervisor.daemon.service:_Daemon._drain",
    "supervisor.daemon.service:handle_signals",
    "supervisor.daemon.service:keep_socket",
    "supervisor.daemon.service:report_status",
    "supervisor.drivers.runtime:DriverRuntime.close_when_cancelled",
    "supervisor.sessions.clock:ActiveClock.run",
    "supervisor.sessions.flusher:OutputFlusher.run",
    "supervisor.sessions.hooks.dispatch:Hooks.run",
    "supervisor.sessions.output_budget:OutputBudget.run",
    "supervisor.sessions.store_health:watch_file",
    "supervisor.sessions.timers:Timers.run",
    # Without it, trio cannot receive the results of threads: tasks wait for them for ever.
    "trio._core._entry_queue:EntryQueue.task",
)
FAILURES: Final = [
    *itertools.product(TASKS, ("memory", "value")),
    ("log thread", "memory"),
    ("store thread", "value"),
]


def check_free(home: Home) -> None:
    """Check that the next daemon can take both locks."""
    with hold_socket_lock(Path(home.socket)), locked(Path(home.load().daemon.database)):
        pass


def planted(home: Home, plant: str, exception: str) -> AbstractContextManager[Daemon]:
    return starting(home, program=("-m", "tests.support.planted_daemon", plant, exception))


@pytest.mark.parametrize(("plant", "exception"), FAILURES)
def test_a_failure_inside_the_daemon_ends_the_process(plant: str, exception: str) -> None:
    with temporary_home(SETTINGS) as home, planted(home, plant, exception) as daemon:
        daemon.hear("READY=1")
        daemon.signal(signal.SIGUSR1)

        assert daemon.wait() == ExitCode.FAILED, daemon.log()
        check_free(home)


async def start_turn(home: Home) -> ProcessIdentity:
    """Start a turn that does not end; return the process of its agent."""
    async with connect(home.socket) as sup:
        session = await sup.create("robot")
        await session.send("sleep 600")
        while (pid := (await session.info()).pid) is None:  # noqa: ASYNC110 - no event tells it
            await trio.sleep(0.01)
        return known(pid)


def test_a_failure_inside_the_daemon_kills_the_agents() -> None:
    with (
        temporary_home(SETTINGS + AGENTS) as home,
        planted(home, "supervisor.sessions.timers:Timers.run", "memory") as daemon,
    ):
        daemon.hear("READY=1")
        process = trio.run(start_turn, home)

        daemon.signal(signal.SIGUSR1)

        assert daemon.wait() == ExitCode.FAILED, daemon.log()
        wait_dead([process])


async def request_without_answer(home: Home) -> None:
    with trio.move_on_after(0.5):
        async with connect(home.socket) as sup:
            await sup.create("echo")


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_a_store_that_hangs_does_not_keep_the_process_alive(*, is_busy: bool) -> None:
    with temporary_home(SETTINGS) as home, planted(home, "stuck store", "value") as daemon:
        daemon.hear("READY=1")
        daemon.signal(signal.SIGUSR1)
        if is_busy:
            trio.run(request_without_answer, home)

        daemon.signal(signal.SIGTERM)

        assert daemon.wait() == ExitCode.STUCK, daemon.log()
        assert "exiting although the store has not answered" in daemon.log()
        check_free(home)


def test_a_stuck_loop_ends_by_signals_alone() -> None:
    with temporary_home(SETTINGS) as home, planted(home, "stuck loop", "value") as daemon:
        daemon.hear("READY=1")
        daemon.signal(signal.SIGUSR1)
        daemon.hear("STATUS=stuck")
        daemon.signal(signal.SIGTERM)
        daemon.signal(signal.SIGTERM)

        assert daemon.wait() == ExitCode.STUCK, daemon.log()
        check_free(home)
