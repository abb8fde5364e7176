"""A daemon that starts on a full disk: it waits visibly, and serves when there is room."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing

from supervisor import ConfigError, StoreDegraded
from supervisor.cli.doctor.daemon_check import check_daemon
from supervisor.daemon import DaemonSignals, ExitCode, disk_room, folders, serve
from supervisor.daemon.disk_room import open_when_room
from supervisor.daemon.exit_watchdog import ExitWatchdog
from supervisor.daemon.folders import make_folder
from supervisor.daemon.systemd import Notifier
from tests.support.daemon_in_process import Home, running
from tests.support.disk.faults import FailingDisk, failing_disk

FULL = StoreDegraded("the disk is full", hint="free some space", is_disk_full=True)


@pytest.fixture
def home(folder: Path) -> Home:
    made = Home(folder)
    made.write("")
    return made


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    with failing_disk() as failing:
        yield failing


class Attempts:
    """Attempts that fail until there is room; their times."""

    def __init__(self, room_at: float, error: StoreDegraded = FULL) -> None:
        self.times: list[float] = []
        self._room_at = room_at
        self._error = error

    async def attempt(self) -> str:
        await trio.lowlevel.checkpoint()
        self.times.append(trio.current_time())
        if trio.current_time() < self._room_at:
            raise self._error
        return "opened"


async def test_the_start_is_retried_within_two_seconds_and_logged_once(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(room_at=trio.current_time() + 60.0)

    assert await open_when_room(attempts.attempt, DaemonSignals(), Notifier({})) == "opened"

    pauses = [later - earlier for earlier, later in pairwise(attempts.times)]
    assert max(pauses) < 2.0
    assert [one.levelname for one in caplog.records] == ["ERROR", "WARNING"]
    assert "free some space" in caplog.text


async def test_another_problem_at_the_start_is_raised() -> None:
    other = StoreDegraded("the disk fails", hint="check the disk")

    with pytest.raises(StoreDegraded, match="the disk fails"):
        await open_when_room(
            Attempts(room_at=1e12, error=other).attempt, DaemonSignals(), Notifier({})
        )


@pytest.mark.parametrize("has_store", [False, True])
async def test_a_daemon_on_a_full_disk_serves_when_there_is_room(
    home: Home, disk: FailingDisk, systemd: socket.socket, *, has_store: bool
) -> None:
    if has_store:
        async with running(home):
            pass
        disk.fail("open", with_="full", on="wal")
    disk.fill()

    async def make_room() -> None:
        told = await trio.to_thread.run_sync(systemd.recv, 999)
        assert told.startswith(b"STATUS=waiting for room on the disk: the store state.db")
        found = await trio.to_thread.run_sync(lambda: list(check_daemon(home.socket)))
        assert [one.code for one in found] == ["daemon-not-listening"]
        assert f"process {os.getpid()} has the lock of {home.socket}" in found[0].detail
        disk.heal()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(make_room)
        environ = {"NOTIFY_SOCKET": systemd.getsockname()}
        async with running(home, environ=environ) as daemon:
            session = await daemon.remote.create("echo")
            assert (await session.prompt("hello")).text == "hello"

    assert daemon.code is ExitCode.CLEAN
    assert next(iter(check_daemon(home.socket))).level == "ok"


async def test_a_daemon_that_waits_for_room_exits_cleanly(
    home: Home, disk: FailingDisk, systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_room, "_RETRY_SECONDS", 3600.0)
    disk.fill()
    signals, codes = DaemonSignals(), list[ExitCode]()
    environ = {**home.environ, "NOTIFY_SOCKET": systemd.getsockname()}

    with ExitWatchdog(lambda _: None) as exit_watchdog, trio.fail_after(60):
        work = partial(
            serve, home.load(), environ=environ, signals=signals, exit_watchdog=exit_watchdog
        )

        async def run() -> None:
            codes.append(await work())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.to_thread.run_sync(systemd.recv, 999)
            signals.leave()

    assert codes == [ExitCode.CLEAN]
    assert not home.has_socket


def test_a_folder_without_room_is_a_full_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(folders, "_create_folders", fail)

    number = errno.ENOSPC
    with pytest.raises(StoreDegraded) as refused:
        make_folder(folder / "state", others="look")
    assert refused.value.is_disk_full
    number = errno.EACCES
    with pytest.raises(ConfigError):
        make_folder(folder / "state", others="look")
