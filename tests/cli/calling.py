"""Calling commands as people do: in this process, in a pipe, and on a terminal."""

import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest

from supervisor.cli import main

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "supervisor.cli"]


@attrs.frozen
class Called:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON has
        return orjson.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [orjson.loads(line) for line in self.out.splitlines()]


class Caller:
    """Calls commands in this very process, as in a pipe."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch = patch
        self._capsys = capsys

    def __call__(self, *arguments: object, stdin: str = "") -> Called:
        self._patch.setattr(sys, "stdin", io.StringIO(stdin))
        self._capsys.readouterr()
        code = main(list(map(str, arguments)))
        said = self._capsys.readouterr()
        return Called(code, said.out, said.err)


def in_a_process(*arguments: object, stdin: str = "", **options: Any) -> Called:  # noqa: ANN401 - those of subprocess.run
    """Call a command in a process of its own, between pipes."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )
    return Called(done.returncode, done.stdout, done.stderr)


class Terminal:
    """A command on a pseudo-terminal, and whoever sits there."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self.seen = ""

    def see(self, text: str, *, seconds: float = 30.0) -> str:
        """Read until that was shown; gives all that was shown so far."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert self._read(deadline - time.monotonic()), f"no {text!r} in {self.seen!r}"
        return self.seen

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def press_ctrl_c(self) -> None:
        self.type("\x03")

    def end(self, *, seconds: float = 30.0) -> int:
        """Read until it has ended; gives the code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # nobody is on the other side any more
            return False
        self.seen += piece.decode(errors="replace")
        return bool(piece)


@contextmanager
def on_a_terminal(
    *arguments: object, columns: int = 80, lines: int = 24, **environ: str
) -> Iterator[Terminal]:
    """Call a command on a terminal of that size; it is killed when the block is left."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", **environ},
        preexec_fn=_own_terminal,  # noqa: PLW1509 - the tests have no threads here
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _own_terminal() -> None:
    """Make it the terminal of the process, so that Ctrl-C reaches that one."""
    os.setsid()
    ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
