"""Run commands in this process, in a child process with pipes, and on a terminal."""

import codecs
import io
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
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
# Make it the controlling terminal, so that Ctrl-C reaches the process; then exec the command.
OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Tty(io.StringIO):
    """A stream that reports to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@attrs.frozen
class Called:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON value
        return orjson.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [orjson.loads(line) for line in self.out.splitlines()]


class Caller:
    """Runner of commands in this process, with captured output."""

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
    """Run a command in a child process with pipes."""
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
    """A command on a pseudo-terminal, with its screen and keyboard."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.seen = ""
        self._master = master
        self._news = threading.Condition()
        self._is_over = False
        # Always drained: a full terminal buffer would block the command.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def see(self, text: str, *, seconds: float = 30.0) -> str:
        """Wait until this text is shown; return everything shown so far."""
        with self._news:
            self._news.wait_for(lambda: text in self.seen or self._is_over, seconds)
            assert text in self.seen
            return self.seen

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def press_ctrl_c(self) -> None:
        self.type("\x03")

    def end(self, *, seconds: float = 30.0) -> int:
        """Wait until the command exits; return its exit code."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._master)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while piece := self._piece():
            with self._news:
                self.seen += decoder.decode(piece)
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def _piece(self) -> bytes:
        try:
            return os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return b""


@contextmanager
def on_a_terminal(
    *arguments: object, columns: int = 80, lines: int = 24, **environ: str
) -> Iterator[Terminal]:
    """Run a command on a terminal of this size; kill it when the block ends."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, *COMMAND, *map(str, arguments)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", **environ},
        start_new_session=True,
    )
    os.close(slave)
    terminal = Terminal(process, master)
    try:
        yield terminal
    finally:
        terminal.close()
