"""Our end of the fork server, the process that forks the guardians (see `guardian.fork_server`).

Rule 1: a fork server starts with the first request, and again when a request finds it dead.
Rule 2: its death changes nothing for the guardians that it has forked: they are our children.
Rule 3: each child of ours is waited for, so none stays a zombie.
"""

from __future__ import annotations

import array
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs
import trio
from trio.lowlevel import enable_ki_protection, wait_readable

ForkRequest: TypeAlias = Literal[b"fork", b"become"]
# Imported by its short name: with -I and -S no installed package, ours included, is on the path.
# The text must not change: `supervisor_pid` recognises running guardians by it.
_PROGRAM: Final = "import sys; sys.path.append(sys.argv.pop(1)); import guardian; guardian.main()"

_FOLDER: Final = Path(__file__).parents[1]
# Variables that the interpreter itself may need to start.
_INHERITED_VARIABLES: Final = ("LD_LIBRARY_PATH",)

_FIRST_FREE_DESCRIPTOR: Final = 3  # after the standard streams

_KILL_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.001


class ChildProcess:
    """A child of ours, known by its pid.

    Its pid is not reused before `has_ended` has returned True, for only we wait for it.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._is_reaped = False

    def has_ended(self) -> bool:
        """Return True if the process has ended; its zombie is removed by that."""
        if not self._is_reaped:
            try:
                self._is_reaped = os.waitpid(self.pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                self._is_reaped = True  # the program around us has waited for it
        return self._is_reaped

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; do nothing if the process has ended."""
        if not self.has_ended():
            os.kill(self.pid, number)

    async def kill_and_wait(self) -> None:
        """Kill the process if it has not ended, and wait for it."""
        self.send_signal(signal.SIGKILL)
        while not self.has_ended():  # noqa: ASYNC110 - it dies within milliseconds
            await trio.sleep(_POLL_SECONDS)


@attrs.frozen
class ServerProcess:
    """A process that serves our requests, and the socket for them."""

    process: ChildProcess
    connection: socket.socket

    def send(self, request: ForkRequest, descriptors: Sequence[int]) -> None:
        """Send a request with copies of the descriptors.

        A process that was stopped is continued. Raise `OSError` if the process is dead, or has not
        read the requests before this one.
        """
        self.process.send_signal(signal.SIGCONT)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        self.connection.sendmsg([request[:1]], [rights], socket.MSG_NOSIGNAL)


class ForkServer:
    """The fork server of one supervisor."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._limiter = trio.CapacityLimiter(1)
        self._lock = trio.Lock()
        # The process that serves; None before the first request and after its death.
        self._current: ServerProcess | None = None
        # One for each process. Shielded: agents may start while the supervisor shuts down.
        self._watch_scopes: set[trio.CancelScope] = set()

    async def fork(self, descriptors: Sequence[int]) -> ServerProcess:
        """Request a guardian with these descriptors; return the process that was asked for it.

        If it forks no guardian, all copies of the descriptors are closed. Raise `OSError` or
        `SubprocessError` if no fork server could be started.
        """
        async with self._lock:
            if self._current is not None:
                try:
                    self._current.send(b"fork", descriptors)
                except OSError:
                    self._current.process.send_signal(signal.SIGKILL)
                else:
                    return self._current
            self._current = await self.start_process()
            scope = trio.CancelScope(shield=True)
            self._watch_scopes.add(scope)
            self._nursery.start_soon(self._watch, self._current, scope)
            self._current.send(b"fork", descriptors)
            return self._current

    def close(self) -> None:
        """Kill the processes that serve; the nursery then ends soon."""
        for scope in self._watch_scopes:
            scope.cancel(reason="no more guardians are needed")

    async def start_process(self) -> ServerProcess:
        """Start a process for requests; raise `OSError` or `SubprocessError` if that fails."""
        ours, theirs = _socket_pair()
        with theirs:
            try:
                pid = await trio.to_thread.run_sync(
                    _run_program, theirs.fileno(), limiter=self._limiter
                )
            except BaseException:
                ours.close()
                raise
        return ServerProcess(ChildProcess(pid), ours)

    @enable_ki_protection
    async def _watch(self, server: ServerProcess, scope: trio.CancelScope) -> None:
        """Wait until the process has ended, or `close` was called, and remove its zombie."""
        with scope:
            await wait_readable(server.connection)  # it never sends anything, so this is its end
        self._watch_scopes.remove(scope)
        if self._current is server:
            self._current = None
        server.connection.close()
        with trio.move_on_after(_KILL_SECONDS, shield=True):
            await server.process.kill_and_wait()


@asynccontextmanager
async def open_fork_server() -> AsyncIterator[ForkServer]:
    """Yield a fork server, and kill its process at the end of the block.

    An exception of the block is raised without an exception group.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        server = ForkServer(nursery)
        try:
            yield server
        except BaseException as error:  # noqa: BLE001 - raised again below, outside the nursery
            failure = error
        server.close()
    if failure is not None:
        raise failure


def move_up(descriptor: int) -> int:
    """Return the descriptor under a number above those of the standard streams.

    A new descriptor has a lower number if this program has closed its standard streams.
    """
    if descriptor >= _FIRST_FREE_DESCRIPTOR:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR)
    finally:
        os.close(descriptor)


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = (socket.socket(fileno=move_up(end.detach())) for end in pair)
    ours.setblocking(False)  # noqa: FBT003 - its only argument
    return ours, theirs


def _run_program(connection: int) -> int:
    """Start the interpreter with the program and this socket; return the pid."""
    if not sys.executable:
        raise FileNotFoundError("sys.executable is empty: the Python interpreter is unknown")
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_FOLDER), str(os.getpid())],
        stdin=connection,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
        process_group=0,  # see `guardian.launch.run_guardian`
    )
    process.returncode = 0  # `ChildProcess` waits for it, not this object
    return process.pid


def supervisor_pid(guardian: int) -> int | None:
    """Return the pid of the guardian's supervisor, alive or not; None if it is not a guardian.

    A forked guardian has the command line of its fork server.
    """
    try:
        words = Path(f"/proc/{guardian}/cmdline").read_bytes().split(b"\0")
        place = words.index(_PROGRAM.encode())
        return int(words[place + 2])  # after the folder, see _run_program
    except (OSError, ValueError, IndexError):
        return None
