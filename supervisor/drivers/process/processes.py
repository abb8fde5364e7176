"""The port through which drivers run processes; implemented by `contained` and by test fakes.

Rule 1: every wait for the process is bounded, and the process cannot block the supervisor.
Rule 2: a process is recorded before its first instruction runs, and the process and its
        descendants are dead when its block ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

import attrs

from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.drivers.identity import ProcessIdentity

# Called with the identity of the process before it runs any code; if it raises, the process is
# killed without having run.
BeforeExec: TypeAlias = Callable[[ProcessIdentity], Awaitable[None]]


@attrs.frozen
class Launch:
    """A program to run: the command, its complete environment, and its working directory.

    With `folder`, device and inode, the program runs only if its working directory is that folder.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str | None = None
    folder: tuple[int, int] | None = None

    def in_folder(self, root: WorkspaceRoot | None) -> Launch:
        """Return the launch, bound to the folder of a workspace."""
        return self if root is None else attrs.evolve(self, folder=root.identity)


@attrs.frozen
class ProcessExit:
    """The end of the process itself; `signal` is set instead of `code` if a signal killed it.

    `guarded` is False if its guardian died first; then `code` and `signal` are both None.
    """

    code: int | None
    signal: int | None = None
    guarded: bool = True

    @property
    def is_clean(self) -> bool:
        """True if the process exited by itself, with code 0."""
        return self.code == 0 and self.guarded


class AgentProcess(Protocol):
    """A running program with everything that it has started."""

    @property
    def identity(self) -> ProcessIdentity:
        """The identity of the agent process itself, not of its guardian."""

    @property
    def input_bytes(self) -> int:
        """The number of bytes written to standard input so far."""

    async def send(self, data: bytes) -> None:
        """Write all of the data to standard input.

        Raise `InputClosed` if the input is closed, and `InputStuck` if the process does not read in
        time. Nothing is written after a cancellation. If it comes after a part was written, the
        input is closed, because the next message would follow half a line.
        """

    async def receive(self) -> bytes:
        """Return the next chunk of standard output; empty at its end."""

    def close_input(self) -> None:
        """Close standard input; do nothing if it is closed already."""

    def interrupt(self) -> None:
        """Send SIGINT to the agent's process group, as Ctrl-C does, and SIGCONT."""

    def terminate(self) -> None:
        """Send SIGTERM to the agent's process group, and SIGCONT to wake a stopped process."""

    def kill(self) -> None:
        """Send SIGKILL to the process and to all its descendants, whatever their process group."""

    async def wait(self) -> ProcessExit:
        """Wait for the end of the process itself; its descendants are killed from then on."""

    async def wait_gone(self, seconds: float) -> tuple[int, ...]:
        """Wait at most `seconds` until the process and its descendants are dead.

        Return survivors.
        """

    def stderr_tail(self) -> str:
        """Return the last part of standard error, as printable text."""


class Processes(Protocol):
    """Runner of processes."""

    def open(
        self, launch: Launch, *, before_exec: BeforeExec
    ) -> AbstractAsyncContextManager[AgentProcess]:
        """Run a program for the duration of the block; kill all its remaining processes on exit.

        Raise `LaunchFailed` if the program does not exist or cannot be executed.
        """


class LaunchFailed(Exception):
    """The program could not be started; the text has the reason, for people."""
