"""What a driver has of a process, whoever runs it: a guardian, or a test.

Rule 1: nothing here waits for the process without a bound, and nothing that it does blocks us.
Rule 2: a process is on record before its first instruction runs, and leaves nothing behind when its
        block is left, however that happens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

import attrs

from supervisor.drivers.identity import ProcessIdentity

# Told who the process is, before it runs; what it raises keeps the process from running.
BeforeItRuns: TypeAlias = Callable[[ProcessIdentity], Awaitable[None]]


@attrs.frozen
class Launch:
    """What is to run: the words of the command, where, and with which environment, all of it."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str | None = None


@attrs.frozen
class Exit:
    """How the process itself ended; `signal` is set instead of `code` if one killed it.

    `guarded` is False if its guardian died before it: then the guardian's death is what we know.
    """

    code: int | None
    signal: int | None = None
    guarded: bool = True

    @property
    def is_clean(self) -> bool:
        """Whether it left by itself and found nothing wrong."""
        return self.code == 0 and self.guarded


class InputClosed(Exception):
    """The process no longer reads what it is sent, or we have closed its input."""


class InputStuck(Exception):
    """The process has not read what it was sent within the bound."""


class Process(Protocol):
    """A program that runs, with everything it has started."""

    @property
    def identity(self) -> ProcessIdentity:
        """Who it is: the agent itself, not its guardian."""

    async def send(self, data: bytes) -> None:
        """Write to its standard input, all of it and in order; raises `InputClosed`, `InputStuck`.

        If it is cancelled half way the input is closed, for nobody could go on behind half a line.
        """

    async def receive(self) -> bytes:
        """The next piece of its standard output; empty when there will be no more."""

    def close_input(self) -> None:
        """Let it see the end of its standard input; doing so again does nothing."""

    def interrupt(self) -> None:
        """SIGINT to its group, as Ctrl-C does it (and SIGCONT)."""

    def terminate(self) -> None:
        """SIGTERM to its group (and SIGCONT, so that a stopped one hears it)."""

    def kill(self) -> None:
        """SIGKILL to it and to everything it has started, wherever that has gone."""

    async def wait(self) -> Exit:
        """Wait for its own end; what it has started is being killed from then on."""

    async def wait_gone(self, seconds: float) -> tuple[int, ...]:
        """Wait until nothing of it is left, at most so long; gives the pids of who is."""

    def stderr_tail(self) -> str:
        """The end of what it has written to standard error, as plain text."""


class Processes(Protocol):
    """Whoever runs processes."""

    def open(
        self, launch: Launch, *, before_it_runs: BeforeItRuns
    ) -> AbstractAsyncContextManager[Process]:
        """Run it for as long as the block lasts; leaving kills what is left, and sees to it.

        Raises `LaunchFailed` if there is no such program, or it may not be run.
        """


class LaunchFailed(Exception):
    """The program could not be run; the text says why, for people."""
