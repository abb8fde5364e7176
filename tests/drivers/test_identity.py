"""Identity of processes; killing exactly the identified ones."""

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
    KillResult,
    ProcessIdentity,
    ProcessStat,
    identify,
    is_alive,
    kill_processes,
    parse_stat,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")

# Runs its argument, reports that it is done, and runs until its input is closed.
PROGRAM = "import sys; exec(sys.argv[1]); print('up', flush=True); sys.stdin.read()"
# The real wait, for something that the kernel does at once: no clock takes part in it.
FOR_EVER = math.inf

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Yield a function that starts children; all are killed after the test."""
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


def test_the_identity_of_a_process_does_not_change(start: Start) -> None:
    child = start()

    assert identify(child.pid) == identify(child.pid)
    assert is_alive(known(child))
    assert known(child).start_time > 0


def test_a_reaped_child_has_no_identity(start: Start) -> None:
    child = start()
    identity = known(child)
    child.kill()
    child.wait()

    assert identify(child.pid) is None
    assert not is_alive(identity)


def test_a_zombie_has_no_identity(start: Start) -> None:
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
def test_pids_below_one_have_no_identity(pid: int) -> None:
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
def test_a_process_name_may_contain_anything(name: bytes) -> None:
    assert parse_stat(STAT % (name, b"S", b"1")) == ProcessStat(b"S", 1, 0, 4242, is_dead=False)


@pytest.mark.parametrize("name", ["a b", ") R 1 (", "))", ") Z 1 2"])
def test_a_process_with_an_odd_name_is_identified(start: Start, name: str) -> None:
    plain = start()
    child = start(f"open('/proc/self/comm', 'w').write({name!r})")

    assert known(child).start_time >= known(plain).start_time
    assert is_alive(known(child))


@pytest.mark.parametrize(
    "text", [b"", b")", b"7 (cat)", b"7 (cat) S 1", (STAT % (b"c", b"S", b"1"))[:-12]]
)
def test_a_malformed_stat_is_not_parsed(text: bytes) -> None:
    assert parse_stat(text) is None


@pytest.mark.parametrize("threads", [b"0", b"1"])
def test_a_zombie_is_dead(threads: bytes) -> None:
    stat = parse_stat(STAT % (b"c", b"Z", threads))

    assert stat is not None
    assert stat.is_dead


def test_a_zombie_with_other_threads_is_not_dead() -> None:
    stat = parse_stat(STAT % (b"c", b"Z", b"2"))

    assert stat is not None
    assert not stat.is_dead


def test_no_process_has_an_identity_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.drivers.identity._PROC", Path("/nowhere"))

    assert identify(os.getpid()) is None


# Killing ---------------------------------------------------------------------------------


@pytest.fixture(params=["with handles", "without handles"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without handles":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.usefixtures("_either_way")
async def test_an_orphan_is_dead_when_it_is_reported_killed(start: Start) -> None:
    child = start("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    identity = known(child)

    killed = await kill_processes([identity], wait_seconds=FOR_EVER)

    assert killed == [KillResult(identity, "killed")]
    assert child.poll() == -signal.SIGKILL


@pytest.mark.usefixtures("_either_way")
async def test_a_process_with_a_reused_pid_is_not_killed(start: Start) -> None:
    child = start()
    before = attrs.evolve(known(child), start_time=known(child).start_time - 1)
    other_boot = attrs.evolve(known(child), boot_id="another")

    found = await kill_processes([before, other_boot])

    assert found == [KillResult(before, "recycled"), KillResult(other_boot, "recycled")]
    assert is_untouched(child)


async def test_a_pid_reused_during_the_check_is_not_killed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start()
    identity = known(child)
    later = attrs.evolve(identity, start_time=identity.start_time + 1)
    looks = iter([identity, later])
    monkeypatch.setattr("supervisor.drivers.identity.identify", lambda _: next(looks))

    found = await kill_processes([identity])

    assert found == [KillResult(identity, "recycled")]
    assert child.poll() is None


@pytest.mark.usefixtures("_either_way")
async def test_a_dead_process_is_reported_gone_zombie_or_not(start: Start) -> None:
    zombie, waited_for = start(), start()
    identities = [known(zombie), known(waited_for)]
    for child in (zombie, waited_for):
        child.kill()
        wait_dead(child)
    waited_for.wait()

    found = await kill_processes(identities)

    assert [leftover.outcome for leftover in found] == ["gone", "gone"]


async def test_kill_results_are_in_the_order_of_the_processes(start: Start) -> None:
    first, second, third = known(start()), known(start()), known(start())
    recycled = attrs.evolve(second, start_time=1)

    found = await kill_processes([first, recycled, third], wait_seconds=FOR_EVER)

    assert [leftover.outcome for leftover in found] == ["killed", "recycled", "killed"]
    assert [leftover.identity for leftover in found] == [first, recycled, third]


async def test_a_surviving_process_is_reported_after_the_timeout(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = [known(start()), known(start())]
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)

    found = await kill_processes(identities, wait_seconds=2.0)

    assert trio.current_time() == 2.0
    assert [leftover.outcome for leftover in found] == ["unkillable", "unkillable"]
    assert "SIGKILL" in (found[0].detail or "")


async def test_a_process_without_permission_is_reported_with_the_reason(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = known(start())

    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)

    assert await kill_processes([identity]) == [KillResult(identity, "unkillable", "not yours")]


async def test_our_own_process_is_not_killed() -> None:
    us = identify(os.getpid())
    assert us is not None

    (found,) = await kill_processes([us])

    assert found.outcome == "unkillable"


async def test_no_descriptor_is_left_open_not_even_when_cancelled(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = [known(start()), known(start())]
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)
    before = descriptors()

    with trio.move_on_after(1.0) as scope:
        await kill_processes(identities, wait_seconds=FOR_EVER)

    assert scope.cancelled_caught
    assert descriptors() == before


async def test_killing_no_processes_does_nothing() -> None:
    with trio.testing.assert_checkpoints():
        assert await kill_processes([]) == []
