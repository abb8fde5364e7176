"""Small programs that misbehave, and functions to observe their processes from outside."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from supervisor.drivers.identity import ProcessIdentity, identify, is_alive
from supervisor.drivers.process.contained import ContainedProcess, ContainedProcesses
from supervisor.drivers.process.processes import BeforeExec, Launch

# Exceeded only by a program that hangs.
PATIENCE_SECONDS: Final = 30.0

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
    stat = Path(f"/proc/{identity.pid}/stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[1])


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
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(path.parent.name))
    return found
