"""The agent as a process: its lines come from descriptor 0 and go to 1, its log goes to 2.

Rule 1: one thread and one wait, for input, for room in the output and for the time together; so
        whatever it is busy with, it hears.
Rule 2: nothing here decides anything. What is done that is no input or output is an order of the
        agent's, and is done when all that was put out before it has been written.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final, NoReturn, assert_never

from supervisor.core.errors import ConfigError
from supervisor.drivers.scripted import ScriptedAgent, Want, parse
from supervisor.drivers.scripted.sessions import Shelf

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
READ_BYTES: Final = 65_536
# A pipe that is said to be writable takes so much without making us wait.
WRITE_BYTES: Final = select.PIPE_BUF
# How long a process that leaves waits for somebody to read its last words.
LAST_WORDS_SECONDS: Final = 0.5
# A child that was forgotten by everybody is gone after that.
SLEEP_SECONDS: Final = 600.0


def main(words: Sequence[str]) -> NoReturn:
    """Run an agent with these flags until it has to leave."""
    try:
        flags = parse(words)
    except ConfigError as error:
        os.write(STDERR, f"scripted: {error}\n".encode())
        raise SystemExit(2) from None
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # to end, and not to tell a story of it
    shelf = None if flags.state is None else _folder(flags.state)
    _Process(ScriptedAgent(flags, shelf=shelf, environment=os.environ)).run()


def _folder(path: str) -> Shelf:
    from supervisor.drivers.scripted.folder import FolderShelf  # noqa: PLC0415 - says why itself

    return FolderShelf(path)


class _Process:
    """The descriptors of this process, at an agent's service."""

    def __init__(self, agent: ScriptedAgent) -> None:
        self._agent = agent
        self._unread = bytearray()
        self._unwritten = memoryview(b"")
        self._reads = True
        self._writes = True

    def run(self) -> NoReturn:
        while True:
            self._agent.tick(time.monotonic())
            # Not before what was taken earlier is written: so a script knows when to wait.
            if not self._unwritten:
                self._unwritten = memoryview(b"".join(self._agent.take_output()))
            is_free = not self._unwritten or self._agent.is_leaving
            wants = self._agent.take_wants() if is_free else []
            for want in wants:
                self._agent.done(want, self._perform(want))
            if not wants:
                self._wait()

    # Input and output -------------------------------------------------------------------------

    def _wait(self) -> None:
        deadline = self._agent.next_deadline()
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        poller = select.poll()
        if self._reads:
            poller.register(STDIN, select.POLLIN)
        if self._unwritten:
            poller.register(STDOUT, select.POLLOUT)
        for descriptor, _ in poller.poll(None if seconds is None else math.ceil(seconds * 1000)):
            if descriptor == STDIN:
                self._read()
            else:
                self._write()

    def _read(self) -> None:
        data = os.read(STDIN, READ_BYTES)
        self._agent.tick(time.monotonic())
        self._unread += data
        if not data:
            self._reads = False
            self._agent.hear_end()
        elif b"\n" in data:
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                self._agent.hear(bytes(line))

    def _write(self) -> None:
        if not self._writes:
            self._unwritten = self._unwritten[:0]
            return
        try:
            written = os.write(STDOUT, self._unwritten[:WRITE_BYTES])
        except BrokenPipeError:
            os.write(STDERR, b"scripted: nobody reads what I say\n")
            os._exit(1)
        self._unwritten = self._unwritten[written:]

    # Orders -----------------------------------------------------------------------------------

    def _perform(self, want: Want) -> str:
        """Carry an order out; gives what there is to say of it."""
        match want.do:
            case "exit":
                self._leave(want.number)
            case "fork":
                return " ".join(map(str, _fork_many(want.number)))
            case "detach":
                return _detach()
            case "ignore_term":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "deafen":
                self._reads = False
            case "close_output":
                self._close_output()
            case "log":
                _log(want.text.encode(errors="replace"))
            case never:
                assert_never(never)
        return ""

    def _leave(self, code: int) -> NoReturn:
        self._unwritten = memoryview(b"".join([self._unwritten, *self._agent.take_output()]))
        poller = select.poll()
        poller.register(STDOUT, select.POLLOUT)
        deadline = time.monotonic() + LAST_WORDS_SECONDS
        while self._unwritten and (left := deadline - time.monotonic()) > 0:
            if poller.poll(left * 1000):
                self._write()
        # The children that were forked share our buffers and our exit handlers: neither is used.
        os._exit(code % 256)

    def _close_output(self) -> None:
        self._writes = False
        # Something has to be there, or the next file that is opened gets the number.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, STDOUT)
        os.close(nothing)


def _log(text: bytes) -> None:
    while text:
        text = text[os.write(STDERR, text) :]


def _fork_many(count: int) -> list[int]:
    """As many children as the machine lets us have."""
    pids: list[int] = []
    try:
        while len(pids) < count:
            pids.append(_fork())
    except OSError as error:
        _log(f"scripted: no more than {len(pids)} children: {error}\n".encode())
    return pids


def _fork() -> int:
    """A child that only sleeps, and holds whatever we hold."""
    pid = os.fork()
    if pid == 0:
        time.sleep(SLEEP_SECONDS)
        os._exit(0)
    return pid


def _detach() -> str:
    """One in a session of its own, which is nobody's child any more; gives its pid."""
    ours, theirs = os.pipe()
    between = os.fork()
    if between == 0:
        os.setsid()
        os.close(ours)
        os.write(theirs, str(_fork_closing(theirs)).encode())
        os._exit(0)
    os.close(theirs)
    os.waitpid(between, 0)
    pid = os.read(ours, READ_BYTES).decode()
    os.close(ours)
    return pid


def _fork_closing(descriptor: int) -> int:
    pid = os.fork()
    if pid == 0:
        os.close(descriptor)
        time.sleep(SLEEP_SECONDS)
        os._exit(0)
    return pid


if __name__ == "__main__":
    main(sys.argv[1:])
