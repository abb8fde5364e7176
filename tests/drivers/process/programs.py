"""Agents that misbehave, as small programs; and what a test needs to look at them from outside."""

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
from supervisor.drivers.process.port import BeforeItRuns, Launch

# Only what hangs is that slow.
PATIENCE_SECONDS: Final = 30.0

# Defined for every program below: `say` writes a line at once, `child` forks one that runs what it
# is given and then only sleeps.
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
    # As daemons are born: in a session of its own, and its parent is dead.
    os.setsid()
    if os.fork():
        os._exit(0)

def ignore_term():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""

FORK_200: Final = "say(os.getpid(), *[child() for _ in range(200)]); sleep()"
# Says its own pid, those of children of all kinds, and of some that are nobody's children any more.
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
# Never the same for long: each one forks, in a session of its own, and is gone.
RUN_AWAY: Final = """
say(os.getpid())
if os.fork():
    sleep()
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


async def nobody_asked(_: ProcessIdentity) -> None:
    """For tests that do not care when the process is put on record."""
    await trio.lowlevel.checkpoint()


def shell(script: str, **environment: str) -> Launch:
    return Launch(("/bin/sh", "-c", script), {"PATH": "/usr/bin:/bin", **environment})


def python(program: str, environment: Mapping[str, str] | None = None) -> Launch:
    command = (sys.executable, "-I", "-S", "-c", PREAMBLE + program)
    return Launch(command, environment or {})


class Lines:
    """A process that is read line by line."""

    def __init__(self, process: ContainedProcess) -> None:
        self.process = process
        self._rest = b""

    async def next(self) -> str:
        while b"\n" not in self._rest:
            piece = await self.process.receive()
            assert piece, f"it said no more; on stderr: {self.process.stderr_tail()}"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    async def pids(self, count: int) -> list[ProcessIdentity]:
        """So many, on as many lines as it likes; all of them live."""
        words: list[str] = []
        while len(words) < count:
            words += (await self.next()).split()
        return [known(int(word)) for word in words]


@asynccontextmanager
async def running(
    processes: ContainedProcesses, launch: Launch, before: BeforeItRuns = nobody_asked
) -> AsyncIterator[Lines]:
    """Have it run; whatever hangs fails the test."""
    with trio.fail_after(PATIENCE_SECONDS):
        async with processes.open(launch, before_it_runs=before) as process:
            yield Lines(process)


async def read_all(process: ContainedProcess) -> bytes:
    pieces = []
    while piece := await process.receive():
        pieces.append(piece)
    return b"".join(pieces)


async def output_of(processes: ContainedProcesses, launch: Launch) -> str:
    async with running(processes, launch) as lines:
        return (await read_all(lines.process)).decode()


def known(pid: int) -> ProcessIdentity:
    identity = identify(pid)
    assert identity is not None, f"{pid} is dead"
    return identity


def alive(identities: Iterable[ProcessIdentity]) -> list[int]:
    return [one.pid for one in identities if is_alive(one)]


def guardian_of(identity: ProcessIdentity) -> int:
    stat = Path(f"/proc/{identity.pid}/stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[1])


def exists(pid: int) -> bool:
    """Also as a zombie."""
    return Path(f"/proc/{pid}").exists()


def bearing(word: str) -> list[int]:
    """Who has that word in his environment."""
    return [
        int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _has(path, word)
    ]


def _has(path: Path, word: str) -> bool:
    try:
        return word.encode() in path.read_bytes()
    except OSError:
        return False


def children() -> list[int]:
    """Our own, zombies included."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(path.parent.name))
    return found
