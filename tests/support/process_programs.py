"""Small programs that misbehave, and functions to observe their processes from outside."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from supervisor.drivers.identity import ProcessIdentity, identify, is_alive
from supervisor.drivers.process.contained import ContainedProcess, ContainedProcesses
from supervisor.drivers.process.processes import BeforeExec, Launch

# Exceeded only by a program that hangs.
PATIENCE_SECONDS: Final = 30.0
# The time in which all processes of a killed supervisor are dead, and what a loaded machine adds.
PROMISED_SECONDS: Final = 2.0
DEAD_WITHIN_SECONDS: Final = 5 * PROMISED_SECONDS

# Defined for every program below: `say` writes a line at once, `child` forks a process that
# calls the function and then only sleeps.
PREAMBLE: Final = """
import os, signal, sys

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def sleep():
    while True:
        signal.pause()

def child(first=lambda: None):
    pid = os.fork()
    if pid == 0:
        first()
        sleep()
    return pid

def escape():
    # Like a daemon: in a session of its own, and with a dead parent.
    os.setsid()
    if os.fork():
        os._exit(0)

def ignore_term():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""

FORK_200: Final = "say(os.getpid(), *[child() for _ in range(200)]); sleep()"
# Says its own pid and those of descendants of all kinds, orphans included.
FORK_ALL_KINDS: Final = """
def tell_and_sleep():
    escape()
    say(os.getpid())
    sleep()

ignore_term()
say(os.getpid())
for _ in range(10):
    say(child())
for _ in range(5):
    say(child(os.setsid))
for _ in range(5):
    child(tell_and_sleep)
say(child(lambda: say(child(os.setsid))))
sleep()
"""
ALL_KINDS: Final = 1 + 10 + 5 + 5 + 2
# A chain of processes: each forks in a session of its own and exits.
RUN_AWAY: Final = """
say(os.getpid())
if os.fork():
    sleep()
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


async def accept_process(_: ProcessIdentity) -> None:
    """Do nothing before exec; for tests that do not check the recording."""
    await trio.lowlevel.checkpoint()


def shell(script: str, **environment: str) -> Launch:
    return Launch(("/bin/sh", "-c", script), {"PATH": "/usr/bin:/bin", **environment})


def python(program: str, environment: Mapping[str, str] | None = None) -> Launch:
    command = (sys.executable, "-I", "-S", "-c", PREAMBLE + program)
    return Launch(command, environment or {})


class Lines:
    """A process whose output is read line by line."""

    def __init__(self, process: ContainedProcess) -> None:
        self.process = process
        self._rest = b""

    async def next(self) -> str:
        while b"\n" not in self._rest:
            chunk = await self.process.receive()
            assert chunk, f"its output has ended; stderr: {self.process.stderr_tail()}"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    async def pids(self, count: int) -> list[ProcessIdentity]:
        """Return `count` live processes, whose pids are read from any number of lines."""
        words: list[str] = []
        while len(words) < count:
            words += (await self.next()).split()
        return [known(int(word)) for word in words]


@asynccontextmanager
async def running(
    processes: ContainedProcesses, launch: Launch, before: BeforeExec = accept_process
) -> AsyncIterator[Lines]:
    """Run a program; fail the test if it hangs."""
    with trio.fail_after(PATIENCE_SECONDS):
        async with processes.open(launch, before_exec=before) as process:
            yield Lines(process)


async def read_all(process: ContainedProcess) -> bytes:
    chunks = []
    while chunk := await process.receive():
        chunks.append(chunk)
    return b"".join(chunks)


async def output_of(processes: ContainedProcesses, launch: Launch) -> str:
    async with running(processes, launch) as lines:
        return (await read_all(lines.process)).decode()


def known(pid: int) -> ProcessIdentity:
    identity = identify(pid)
    assert identity is not None, f"{pid} is dead"
    return identity


def alive(identities: Iterable[ProcessIdentity]) -> list[int]:
    return [identity.pid for identity in identities if is_alive(identity)]


def guardian_of(identity: ProcessIdentity) -> int:
    return int(stat_fields(identity.pid)[1])


def wait_for(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Poll a condition that has no event; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not true in time"
        time.sleep(0.002)


def wait_dead(processes: Iterable[ProcessIdentity]) -> None:
    """Wait until all processes are dead, within the promised time and the machine's slowness."""
    processes = list(processes)
    wait_for(lambda: not alive(processes), DEAD_WITHIN_SECONDS)


def stop(process: ProcessIdentity) -> None:
    """Send SIGSTOP and wait until the process is stopped; a busy machine delivers it late."""
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(lambda: stat_fields(process.pid)[0] == "T")


def descendants_of(pid: int) -> list[ProcessIdentity]:
    """Return all live descendants of a process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(stat_fields(int(entry.name))[1])
            except OSError:
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    identities = (identify(one) for one in found - {pid})
    return [one for one in identities if one is not None]


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the process name, which may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def exists(pid: int) -> bool:
    """Return True if the process exists, zombies included."""
    return Path(f"/proc/{pid}").exists()


def bearing(word: str) -> list[int]:
    """Return the pids of processes with that word in their environment."""
    return [
        int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _has(path, word)
    ]


def _has(path: Path, word: str) -> bool:
    try:
        return word.encode() in path.read_bytes()
    except OSError:
        return False


def children() -> list[int]:
    """Return the pids of our own children, zombies included."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(stat_fields(int(path.name))[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.append(int(path.name))
    return found
