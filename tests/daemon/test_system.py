"""systemd, signals and descriptors."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from supervisor.daemon.system import descriptors
from supervisor.daemon.system.notify import Notifier
from supervisor.daemon.system.orders import Orders, obey_signals
from supervisor.daemon.system.watchdog import give_signs_of_life


@pytest.fixture
def systemd(folder: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listens:
        listens.bind(str(folder / "notify"))
        listens.settimeout(5)
        yield listens


def environ(systemd: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": systemd.getsockname(), **more}


def test_systemd_hears_how_it_is(systemd: socket.socket) -> None:
    notifier = Notifier(environ(systemd))

    notifier.ready("listening\non something")
    assert systemd.recv(999) == b"READY=1\nSTATUS=listening on something"
    notifier.stopping("leaving")
    assert systemd.recv(999) == b"STOPPING=1\nSTATUS=leaving"
    notifier.reloading()
    said = systemd.recv(999)
    assert said.startswith(b"RELOADING=1\nMONOTONIC_USEC=")


def test_a_name_in_the_kernel_s_own_space_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listens:
        listens.bind(f"\0understudy-{os.getpid()}")
        listens.settimeout(5)

        Notifier({"NOTIFY_SOCKET": f"@understudy-{os.getpid()}"}).alive()

        assert listens.recv(99) == b"WATCHDOG=1"


@pytest.mark.parametrize("given", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}])
def test_where_nobody_listens_nothing_is_said(given: dict[str, str]) -> None:
    Notifier(given).ready("hello")


def test_a_systemd_that_is_gone_is_no_trouble(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Notifier({"NOTIFY_SOCKET": str(folder / "gone")}).ready("hello")

    assert "systemd could not be told READY=1" in caplog.text


def test_a_systemd_that_does_not_read_is_not_waited_for(
    systemd: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as others:
        others.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            for _ in range(1_000_000):
                others.sendto(b"STATUS=hello", systemd.getsockname())

    Notifier(environ(systemd)).alive()

    assert f"systemd could not be told WATCHDOG=1: {os.strerror(errno.EAGAIN)}" in caplog.text


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
def test_systemd_says_how_often_it_wants_a_sign(
    given: dict[str, str], seconds: float | None
) -> None:
    assert Notifier(given).watchdog_seconds == seconds


async def test_a_sign_of_life_is_given_only_for_an_answer(
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
        await give_signs_of_life(notifier, ask)

    assert [systemd.recv(99) for _ in range(2)] == [b"WATCHDOG=1"] * 2
    systemd.setblocking(False)  # noqa: FBT003 - the socket's own
    with pytest.raises(BlockingIOError):
        systemd.recv(99)
    assert "no sign of life: TooSlowError" in caplog.text


async def test_without_a_watchdog_nothing_is_asked() -> None:
    async def ask(_: float) -> None:
        raise AssertionError

    await give_signs_of_life(Notifier({}), ask)


async def test_each_signal_hurries_more() -> None:
    ended: list[int] = []
    orders = Orders(end_process=ended.append)
    async with trio.open_nursery() as nursery:
        await nursery.start(obey_signals, orders)
        os.kill(os.getpid(), signal.SIGTERM)
        await orders.wait_to_leave()
        hastes = [orders.haste]
        os.kill(os.getpid(), signal.SIGINT)
        await orders.wait_to_hurry()
        hastes.append(orders.haste)
        os.kill(os.getpid(), signal.SIGTERM)
        with trio.fail_after(5):
            while not ended:  # noqa: ASYNC110 - a signal comes when it comes
                await trio.sleep(0.001)
        nursery.cancel_scope.cancel()

    assert hastes == ["peace", "fast"]
    assert ended == [137]


async def test_a_hangup_is_an_order_to_read_again() -> None:
    orders = Orders()
    async with trio.open_nursery() as nursery:
        await nursery.start(obey_signals, orders)
        os.kill(os.getpid(), signal.SIGHUP)
        with trio.fail_after(5):
            await orders.wait_to_reload()
        assert orders.haste == "stay"
        nursery.cancel_scope.cancel()


async def test_orders_to_read_again_do_not_add_up(autojump_clock: trio.testing.MockClock) -> None:
    orders = Orders()
    orders.reload()
    orders.reload()
    await orders.wait_to_reload()

    with trio.move_on_after(1) as waited:
        await orders.wait_to_reload()

    assert waited.cancelled_caught


def test_descriptors_are_made_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))

    descriptors.make_room(connections=2000, agents=64)
    descriptors.make_room(connections=10, agents=1)

    assert asked == [(2640, 4096)]


def test_too_few_descriptors_are_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 512))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)

    descriptors.make_room(connections=2000, agents=64)

    assert "512 descriptors are allowed" in caplog.text
