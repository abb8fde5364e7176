"""systemd notifications, signals and the descriptor limit."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from supervisor import Settings
from supervisor.daemon import descriptors
from supervisor.daemon.signals import DaemonSignals, handle_signals
from supervisor.daemon.systemd import Notifier, run_watchdog


def environ(systemd: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": systemd.getsockname(), **more}


def test_the_notifier_sends_each_state(systemd: socket.socket) -> None:
    notifier = Notifier(environ(systemd))

    notifier.ready("listening\non something")
    assert systemd.recv(999) == b"READY=1\nSTATUS=listening on something"
    notifier.stopping("leaving")
    assert systemd.recv(999) == b"STOPPING=1\nSTATUS=leaving"
    notifier.reloading()
    said = systemd.recv(999)
    assert said.startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    notifier.waiting("no room", extend_seconds=2.5)
    assert systemd.recv(999) == b"STATUS=no room\nEXTEND_TIMEOUT_USEC=2500000"


def test_an_abstract_socket_name_is_supported() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listens:
        listens.bind(f"\0understudy-{os.getpid()}")
        listens.settimeout(30)

        Notifier({"NOTIFY_SOCKET": f"@understudy-{os.getpid()}"}).alive()

        assert listens.recv(99) == b"WATCHDOG=1"


@pytest.mark.parametrize("given", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}])
def test_without_a_socket_nothing_is_sent(given: dict[str, str]) -> None:
    Notifier(given).ready("hello")


def test_a_missing_systemd_is_logged_only(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": str(folder / "gone")}).ready("hello")

    assert "systemd notification READY=1 failed" in caplog.text


def test_a_systemd_that_does_not_read_is_not_awaited(
    systemd: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as others:
        others.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            for _ in range(1_000_000):
                others.sendto(b"STATUS=hello", systemd.getsockname())

    Notifier(environ(systemd)).alive()

    assert f"systemd notification WATCHDOG=1 failed: {os.strerror(errno.EAGAIN)}" in caplog.text


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_the_watchdog_interval_comes_from_the_environment(
    given: dict[str, str], seconds: float | None
) -> None:
    assert Notifier(given).watchdog_seconds == seconds


async def test_the_watchdog_notifies_only_after_a_successful_check(
    systemd: socket.socket, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(environ(systemd, WATCHDOG_USEC="3000000"))
    answers = [True, False, True]

    async def ask(patience_seconds: float) -> None:
        assert patience_seconds == 1.0
        if not answers:
            await trio.sleep_forever()
        if not answers.pop(0):
            raise trio.TooSlowError

    with trio.move_on_after(10):
        await run_watchdog(notifier, ask)

    assert [systemd.recv(99) for _ in range(2)] == [b"WATCHDOG=1"] * 2
    systemd.setblocking(False)  # noqa: FBT003 - the socket's own
    with pytest.raises(BlockingIOError):
        systemd.recv(99)
    assert "watchdog check failed: TooSlowError" in caplog.text


async def test_without_a_watchdog_nothing_is_checked() -> None:
    async def ask(_: float) -> None:
        raise AssertionError

    await run_watchdog(Notifier({}), ask)


async def test_each_signal_raises_the_urgency_and_bounds_the_exit() -> None:
    bounded: list[str] = []
    orders = DaemonSignals()
    orders.limit_exit = bounded.append
    async with trio.open_nursery() as nursery:
        await nursery.start(handle_signals, orders)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        with trio.fail_after(30):
            while orders.urgency != "now":  # noqa: ASYNC110 - a signal comes when it comes
                await trio.sleep(0.001)
        nursery.cancel_scope.cancel()

    # In the handler, and again by the request.
    assert sorted(bounded) == sorted(["graceful", "fast", "now"] * 2)


async def test_sighup_requests_a_reload() -> None:
    orders = DaemonSignals()
    async with trio.open_nursery() as nursery:
        await nursery.start(handle_signals, orders)
        os.kill(os.getpid(), signal.SIGHUP)
        with trio.fail_after(30):
            await orders.wait_to_reload()
        assert orders.urgency == "none"
        nursery.cancel_scope.cancel()


async def test_reload_requests_are_merged(autojump_clock: trio.testing.MockClock) -> None:
    orders = DaemonSignals()
    orders.reload()
    orders.reload()
    await orders.wait_to_reload()

    with trio.move_on_after(1) as waited:
        await orders.wait_to_reload()

    assert waited.cancelled_caught


def test_the_descriptor_limit_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))

    descriptors.raise_descriptor_limit(connections=2000, agents=64)
    descriptors.raise_descriptor_limit(connections=10, agents=1)

    assert asked == [(2640, 4096)]


def test_a_low_descriptor_limit_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 512))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)

    descriptors.raise_descriptor_limit(connections=2000, agents=64)

    assert "descriptor limit 512 is too low" in caplog.text


@pytest.mark.parametrize(
    ("limit", "listeners", "allowed"),
    [(100_000, 2, 2000), (4096, 1, 2000), (4096, 2, 1728), (1024, 1, 448), (256, 2, 48), (8, 2, 1)],
)
def test_connections_leave_descriptors_for_the_store_and_agents(
    monkeypatch: pytest.MonkeyPatch, limit: int, listeners: int, allowed: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    found = descriptors.connection_limit(connections=2000, listeners=listeners, agents=64)

    assert found == allowed


@pytest.mark.parametrize(
    ("limit", "allowed"), [(resource.RLIM_INFINITY, 64), (100_000, 64), (1024, 56), (256, 12)]
)
def test_no_more_agents_run_than_have_descriptors(
    monkeypatch: pytest.MonkeyPatch, limit: int, allowed: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    settings = descriptors.within_descriptors(Settings(max_agent_processes=64))

    assert settings.max_agent_processes == allowed
