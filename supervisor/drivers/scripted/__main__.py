"""The host process of a scripted agent: input on descriptor 0, output on 1, log on 2.

Rule 1: one thread and one wait, for input, for room in the output and for the deadline together, so
        that input is always read.
Rule 2: the engine decides, and this host performs: an action of the agent is performed when all
        output before it was written.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn, assert_never

from supervisor.core.errors import ConfigError

from . import ProcessAction, ScriptedAgent, parse
from .conversations import SavedConversations

if TYPE_CHECKING:
    from .mcp_servers import McpServers

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
READ_BYTES: Final = 65_536
# A write of this size to a writable pipe does not block.
WRITE_BYTES: Final = select.PIPE_BUF
# How long an exiting process waits until its last output is read.
LAST_OUTPUT_SECONDS: Final = 0.5
# A forked child that is never killed exits after this time.
SLEEP_SECONDS: Final = 600.0


def main(words: Sequence[str]) -> NoReturn:
    """Run an agent with these flags until it exits."""
    try:
        flags = parse(words)
    except ConfigError as error:
        os.write(STDERR, f"scripted: {error}\n".encode())
        raise SystemExit(2) from None
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # end without a traceback
    saved = None if flags.state is None else _open_folder(flags.state)
    _ProcessHost(ScriptedAgent(flags, saved=saved, environment=os.environ)).run()


def _open_folder(path: str) -> SavedConversations:
    from .conversation_files import FolderConversations  # noqa: PLC0415 - slow to import, see there

    return FolderConversations(path)


class _ProcessHost:
    """The loop that connects an agent to the descriptors of this process."""

    def __init__(self, agent: ScriptedAgent) -> None:
        self._agent = agent
        self._unread = bytearray()
        self._unwritten = memoryview(b"")
        self._is_reading = True
        self._is_writing = True
        self._mcp_servers: McpServers | None = None

    def run(self) -> NoReturn:
        while True:
            self._agent.tick(time.monotonic())
            # Only when earlier output is written, so that a script waits while the pipe is full.
            if not self._unwritten:
                self._unwritten = memoryview(b"".join(self._agent.take_output()))
            is_free = not self._unwritten or self._agent.is_exiting
            actions = self._agent.take_actions() if is_free else []
            for action in actions:
                self._agent.action_done(action, self._perform(action))
            if not actions:
                self._wait()

    # Input and output -------------------------------------------------------------------------

    def _wait(self) -> None:
        deadline = self._agent.next_deadline()
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        poller = select.poll()
        if self._is_reading:
            poller.register(STDIN, select.POLLIN)
        if self._unwritten:
            poller.register(STDOUT, select.POLLOUT)
        if self._mcp_servers is not None:
            self._mcp_servers.register(poller)
        for descriptor, _ in poller.poll(None if seconds is None else math.ceil(seconds * 1000)):
            if descriptor == STDIN:
                self._read()
            elif descriptor == STDOUT:
                self._write()
            else:
                self._read_server(descriptor)

    def _read(self) -> None:
        data = os.read(STDIN, READ_BYTES)
        self._agent.tick(time.monotonic())
        self._unread += data
        if not data:
            self._is_reading = False
            self._agent.receive_eof()
        elif b"\n" in data:
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                self._agent.receive_line(bytes(line))

    def _read_server(self, descriptor: int) -> None:
        lines = self._servers().read(descriptor)
        self._agent.tick(time.monotonic())
        if lines is None:
            self._agent.receive_server_end()
            return
        for line in lines:
            self._agent.receive_server_line(line)

    def _write(self) -> None:
        if not self._is_writing:
            self._unwritten = self._unwritten[:0]
            return
        try:
            written = os.write(STDOUT, self._unwritten[:WRITE_BYTES])
        except BrokenPipeError:
            os.write(STDERR, b"scripted: standard output is closed\n")
            os._exit(1)
        self._unwritten = self._unwritten[written:]

    # Actions ----------------------------------------------------------------------------------

    def _servers(self) -> McpServers:
        if self._mcp_servers is None:
            from .mcp_servers import McpServers  # noqa: PLC0415 - slow to import

            self._mcp_servers = McpServers()
        return self._mcp_servers

    def _perform(self, action: ProcessAction) -> str:
        """Perform an action; return its output."""
        match action.kind:
            case "exit":
                self._exit(action.number)
            case "fork":
                return " ".join(map(str, _fork_many(action.number)))
            case "detach":
                return _detach()
            case "ignore_term":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "deafen":
                self._is_reading = False
            case "close_output":
                self._close_output()
            case "log":
                _log(action.text.encode(errors="replace"))
            case "mcp":
                return self._servers().send(action.text)
            case never:
                assert_never(never)
        return ""

    def _exit(self, code: int) -> NoReturn:
        self._unwritten = memoryview(b"".join([self._unwritten, *self._agent.take_output()]))
        poller = select.poll()
        poller.register(STDOUT, select.POLLOUT)
        deadline = time.monotonic() + LAST_OUTPUT_SECONDS
        while self._unwritten and (left := deadline - time.monotonic()) > 0:
            if poller.poll(left * 1000):
                self._write()
        # Forked children share our buffers and exit handlers, so neither is used.
        os._exit(code % 256)

    def _close_output(self) -> None:
        self._is_writing = False
        # The descriptor stays in use, or the next file that is opened would get its number.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, STDOUT)
        os.close(null)


def _log(text: bytes) -> None:
    while text:
        text = text[os.write(STDERR, text) :]


def _fork_many(count: int) -> list[int]:
    """Fork children and return their pids; stop early if the system refuses more processes."""
    pids: list[int] = []
    try:
        while len(pids) < count:
            pids.append(_fork())
    except OSError as error:
        _log(f"scripted: no more than {len(pids)} children: {error}\n".encode())
    return pids


def _fork() -> int:
    """Fork a child that only sleeps and keeps our descriptors open; return its pid."""
    pid = os.fork()
    if pid == 0:
        time.sleep(SLEEP_SECONDS)
        os._exit(0)
    return pid


def _detach() -> str:
    """Fork a child in a new session whose parent has exited; return its pid."""
    ours, theirs = os.pipe()
    parent = os.fork()
    if parent == 0:
        os.setsid()
        os.close(ours)
        os.write(theirs, str(_fork_closing(theirs)).encode())
        os._exit(0)
    os.close(theirs)
    os.waitpid(parent, 0)
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
