"""A command in a real terminal: tmux, on a socket of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import attrs
import pytest

from .cli_runner import COMMAND, ROOT

PATIENCE_SECONDS: Final = 60.0
StartDaemon: TypeAlias = Callable[[], subprocess.Popen[str]]

_TMUX: Final = shutil.which("tmux") or "tmux"
needs_tmux = pytest.mark.skipif(shutil.which(_TMUX) is None, reason="tmux is not installed")


@attrs.frozen
class Pane:
    """A pane of tmux with one command in it."""

    socket: str

    def run(self, *arguments: str) -> str:
        command = [_TMUX, "-S", self.socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def text(self) -> str:
        """Return the lines that the terminal shows."""
        return self.run("capture-pane", "-p")

    def see(self, text: str) -> str:
        """Wait until the terminal shows this text; return all that it shows."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in (shown := self.text()):
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)
        return shown

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys, in the names of tmux: `Enter`, `C-c`, `Tab`."""
        self.run("send-keys", *keys)

    def paste(self, text: str) -> None:
        """Paste a text, as a terminal with bracketed paste does."""
        self.run("set-buffer", "--", text)
        self.run("paste-buffer", "-p", "-r")

    def resize(self, columns: int, lines: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(lines))


@contextmanager
def in_tmux(
    folder: object, *arguments: object, columns: int = 80, lines: int = 24
) -> Iterator[Pane]:
    """Run a command of understudy in tmux, with its socket in `folder`.

    The shell prints `exit CODE` when the command has ended.
    """
    pane = Pane(f"{folder}/tmux")
    words = shlex.join([*COMMAND, *map(str, arguments)])
    shell = f"cd {shlex.quote(str(ROOT))}; {words}; echo exit $?; exec sleep 600"
    size = ("-x", str(columns), "-y", str(lines))
    environ = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [_TMUX, "-S", pane.socket, "-f", "/dev/null", "new-session", "-d", *size, shell],
        env=environ,
        check=True,
    )
    try:
        yield pane
    finally:
        pane.run("kill-server")
