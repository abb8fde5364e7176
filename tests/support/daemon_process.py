"""A real daemon, in a process and a home of its own; what is waited for are facts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from .daemon_in_process import Home

ROOT: Final = Path(__file__).parents[2]
PATIENCE_SECONDS: Final = 60.0

# Agents that are processes: one that does as it is told, over ACP.
AGENTS: Final = f"""
[agents.robot]
driver = "acp"
command = ["{sys.executable}", "-m", "supervisor.drivers.scripted"]
env = {{ PYTHONPATH = "{ROOT}" }}
"""


@attrs.define
class Daemon:
    """One life of a daemon."""

    home: Home
    process: subprocess.Popen[bytes]
    systemd: socket.socket

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return (self.home.folder / "log").read_text()

    def hear(self, word: str) -> str:
        """Wait until systemd is told something that begins so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                said = self.systemd.recv(4096).decode()
            except TimeoutError:
                assert self.process.poll() is None, self.log()
                continue
            if said.startswith(word):
                return said
        raise AssertionError(f"systemd never heard {word}: {self.log()}")

    def signal(self, one: signal.Signals) -> None:
        self.process.send_signal(one)

    def wait(self) -> int:
        """Wait for the exit and return the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def leave(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)


@contextmanager
def daemon(home: Home, *arguments: str) -> Iterator[Daemon]:
    """Yield a daemon that answers; kill it after the block if it still runs."""
    with starting(home, *arguments) as made:
        made.hear("READY=1")
        yield made


@contextmanager
def starting(
    home: Home, *arguments: str, program: Sequence[str] = ("-m", "supervisor.daemon")
) -> Iterator[Daemon]:
    """Yield a daemon that is starting."""
    notify = home.folder / "notify"
    notify.unlink(missing_ok=True)
    environ = {**home.environ, "NOTIFY_SOCKET": str(notify), "PYTHONPATH": str(ROOT)}
    environ |= {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd,
        (home.folder / "log").open("ab") as log,
    ):
        systemd.bind(str(notify))
        systemd.settimeout(0.2)
        process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            env=environ,
            cwd=home.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield Daemon(home, process, systemd)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def free_port() -> int:
    """Return a free TCP port below the range from which the kernel takes ports by itself.

    A port of that range could be given to another process before the daemon listens on it.
    """
    for offset in range(1000):
        port = 20_000 + (os.getpid() * 10 + offset) % 10_000
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
