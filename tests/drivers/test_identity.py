"""Who a process is; and that nobody else is killed in its place."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from supervisor.drivers.identity import (
    Leftover,
    ProcessIdentity,
    identify,
    is_alive,
    kill_leftovers,
    parse_stat,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc elsewhere")

# Runs what it is given, says that it is done, and lives until nobody holds its input any more.
PROGRAM = "import sys; exec(sys.argv[1]); print('up', flush=True); sys.stdin.read()"
# The real wait, for something that the kernel does at once: no clock takes part in it.
FOR_EVER = math.inf

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children that do something first; all are gone after the test."""
    children: list[subprocess.Popen[bytes]] = []

    def start(first: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-c", PROGRAM, first]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def known(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    identity = identify(child.pid)
    assert identity is not None
    return identity


def wait_dead(child: subprocess.Popen[bytes]) -> None:
    """Wait until it is dead, and leave it a zombie."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def is_untouched(child: subprocess.Popen[bytes]) -> bool:
    """Whether no signal has reached it: the kernel delivers a SIGKILL before anything is read."""
    return child.poll() is None and is_alive(known(child))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# Who it is -------------------------------------------------------------------------------


def test_a_process_is_the_same_however_often_one_looks(start: Start) -> None:
    child = start()

    assert identify(child.pid) == identify(child.pid)
    assert is_alive(known(child))
    assert known(child).start_time > 0


def test_nobody_bears_the_pid_of_a_child_that_was_waited_for(start: Start) -> None:
    child = start()
    identity = known(child)
    child.kill()
    child.wait()

    assert identify(child.pid) is None
    assert not is_alive(identity)


def test_a_zombie_is_nobody(start: Start) -> None:
    child = start()
    identity = known(child)
    child.kill()
    wait_dead(child)

    assert identify(child.pid) is None
    assert not is_alive(identity)


def test_a_stopped_process_is_alive(start: Start) -> None:
    child = start()
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)

    assert is_alive(known(child))


def test_a_process_lives_on_when_only_its_first_thread_has_ended(start: Start) -> None:
    leave = "import ctypes; ctypes.CDLL(None).pthread_exit(None)"
    main = "threading.main_thread().native_id"
    stat = f"open(f'/proc/{{{main}}}/stat').read()"
    child = start(
        "import threading, sys, os\n"
        "def other():\n"
        f"    while ') Z ' not in {stat}: os.sched_yield()\n"
        "    os.write(1, b'up\\n'); sys.stdin.buffer.raw.read()\n"
        "threading.Thread(target=other).start()\n"
        f"{leave}"
    )

    assert is_alive(known(child))


@pytest.mark.parametrize("pid", [0, -1, pytest.param(-os.getpid(), id="a group"), 2**22 + 1, 2**70])
def test_no_process_has_a_pid_that_means_something_else(pid: int) -> None:
    assert identify(pid) is None


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot_id": "another"}])
def test_the_same_pid_at_another_time_is_another_process(
    start: Start, change: dict[str, Any]
) -> None:
    identity = known(start())

    assert not is_alive(attrs.evolve(identity, **change))


STAT = b"7 (%s) %s 1 " + b"0 " * 15 + b"%s 0 4242 0 0\n"


@pytest.mark.parametrize(
    "name", [b"cat", b"", b"a b", b"a) R 1 2", b"((", b"))", b") Z (", b"\xff"]
)
def test_a_name_may_have_anything_in_it(name: bytes) -> None:
    assert parse_stat(STAT % (name, b"S", b"1")) == 4242


@pytest.mark.parametrize("name", ["a b", ") R 1 (", "))", ") Z 1 2"])
def test_a_process_may_give_itself_such_a_name(start: Start, name: str) -> None:
    plain = start()
    child = start(f"open('/proc/self/comm', 'w').write({name!r})")

    assert known(child).start_time >= known(plain).start_time
    assert is_alive(known(child))


@pytest.mark.parametrize("text", [b"", b")", b"7 (cat)", b"7 (cat) S 1", STAT % (b"c", b"Z", b"1")])
def test_what_is_no_line_of_a_living_process_is_nobodys(text: bytes) -> None:
    assert parse_stat(text) is None


def test_where_there_is_no_proc_nobody_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.drivers.identity._PROC", Path("/nowhere"))

    assert identify(os.getpid()) is None


# Killing ---------------------------------------------------------------------------------


@pytest.fixture(params=["with handles", "without handles"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without handles":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.usefixtures("_either_way")
async def test_a_leftover_is_killed_and_dead_when_that_is_said(start: Start) -> None:
    child = start("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    identity = known(child)

    killed = await kill_leftovers([identity], wait_seconds=FOR_EVER)

    assert killed == [Leftover(identity, "killed")]
    assert child.poll() == -signal.SIGKILL


@pytest.mark.usefixtures("_either_way")
async def test_a_process_that_has_come_to_bear_the_pid_is_not_touched(start: Start) -> None:
    child = start()
    before = attrs.evolve(known(child), start_time=known(child).start_time - 1)
    other_boot = attrs.evolve(known(child), boot_id="another")

    found = await kill_leftovers([before, other_boot])

    assert found == [Leftover(before, "recycled"), Leftover(other_boot, "recycled")]
    assert is_untouched(child)


async def test_a_pid_that_is_recycled_while_we_look_is_not_touched(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start()
    identity = known(child)
    later = attrs.evolve(identity, start_time=identity.start_time + 1)
    looks = iter([identity, later])
    monkeypatch.setattr("supervisor.drivers.identity.identify", lambda _: next(looks))

    found = await kill_leftovers([identity])

    assert found == [Leftover(identity, "recycled")]
    assert child.poll() is None


@pytest.mark.usefixtures("_either_way")
async def test_who_is_dead_already_is_gone_zombie_or_not(start: Start) -> None:
    zombie, waited_for = start(), start()
    identities = [known(zombie), known(waited_for)]
    for child in (zombie, waited_for):
        child.kill()
        wait_dead(child)
    waited_for.wait()

    found = await kill_leftovers(identities)

    assert [leftover.fate for leftover in found] == ["gone", "gone"]


async def test_each_gets_its_own_answer_in_the_order_asked(start: Start) -> None:
    first, second, third = known(start()), known(start()), known(start())
    recycled = attrs.evolve(second, start_time=1)

    found = await kill_leftovers([first, recycled, third], wait_seconds=FOR_EVER)

    assert [leftover.fate for leftover in found] == ["killed", "recycled", "killed"]
    assert [leftover.identity for leftover in found] == [first, recycled, third]


async def test_one_that_does_not_die_is_reported_when_the_time_is_over(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = [known(start()), known(start())]
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)

    found = await kill_leftovers(identities, wait_seconds=2.0)

    assert trio.current_time() == 2.0
    assert [leftover.fate for leftover in found] == ["unkillable", "unkillable"]
    assert "SIGKILL" in (found[0].detail or "")


async def test_one_that_we_may_not_kill_is_reported_with_the_reason(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = known(start())

    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)

    assert await kill_leftovers([identity]) == [Leftover(identity, "unkillable", "not yours")]


async def test_we_do_not_kill_ourselves() -> None:
    us = identify(os.getpid())
    assert us is not None

    (found,) = await kill_leftovers([us])

    assert found.fate == "unkillable"


async def test_no_descriptor_is_left_open_not_even_when_cancelled(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = [known(start()), known(start())]
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)
    before = descriptors()

    with trio.move_on_after(1.0) as scope:
        await kill_leftovers(identities, wait_seconds=FOR_EVER)

    assert scope.cancelled_caught
    assert descriptors() == before


async def test_nobody_to_kill_is_no_work() -> None:
    with trio.testing.assert_checkpoints():
        assert await kill_leftovers([]) == []
