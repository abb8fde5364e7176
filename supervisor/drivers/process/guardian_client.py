"""Our end of a guardian: have it forked, send it commands, read its reports.

If the supervisor dies, the command pipe ends, and the guardian kills everything. See `guardian` for
the commands and reports. This module also encodes launches for the guardian, and turns its launch
failures into messages for people.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Final, Literal, TypeAlias

import trio
from trio.lowlevel import enable_ki_protection
from trio_util import periodic

from supervisor.core.errors import short_repr
from supervisor.drivers.identity import ProcessIdentity, identify
from supervisor.json_rpc.rpc_outbox import InputClosed, InputStuck

from .environment import MARKER_VARIABLE, Marker
from .fork_server import ChildProcess, ForkServer, move_up
from .pipes import PipeReader, PipeWriter
from .processes import Launch, LaunchFailed

GuardianCommand: TypeAlias = Literal["go", "interrupt", "terminate", "kill"]

_COMMAND_LETTERS: Final[Mapping[GuardianCommand, bytes]] = {
    "go": b"g",
    "interrupt": b"i",
    "terminate": b"t",
    "kill": b"k",
}
_CONTINUE_EVERY_SECONDS: Final = 2.0

_GIVE_UP_SECONDS: Final = 1.0

_IS_LINUX: Final = sys.platform == "linux"


class AgentStreams:
    """Our ends of the agent's three pipes."""

    def __init__(self, stdin: int, stdout: int, stderr: int) -> None:
        self.stdin = PipeWriter(stdin)
        self.stdout = PipeReader(stdout)
        self.stderr = PipeReader(stderr)

    def stop_waiting(self) -> None:
        """Make `receive` return only output that has already arrived, then the end."""
        self.stdout.stop_waiting()
        self.stderr.stop_waiting()

    def close(self) -> None:
        """Close the pipes that are still open."""
        for end in (self.stdin, self.stdout, self.stderr):
            end.close()


class GuardianReports:
    """The lines that a guardian writes."""

    def __init__(self, descriptor: int) -> None:
        self._reader = PipeReader(descriptor)
        self._lines: list[str] = []
        self._rest = b""

    async def next_line(self) -> str | None:
        """Return the next line; None when the guardian has ended."""
        while not self._lines:
            chunk = await self._reader.receive()
            if not chunk:
                return None
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._lines = [line.decode("ascii", "replace") for line in lines]
        return self._lines.pop(0)

    def close(self) -> None:
        """Close the pipe."""
        self._reader.close()


class GuardianClient:
    """One guardian, a child process of ours.

    Its pid is not reused before `kill_and_wait` returns.
    """

    def __init__(self, guardian: ChildProcess, commands: int, reports: GuardianReports) -> None:
        self._guardian = guardian
        self._commands = PipeWriter(commands)
        self._reports = reports

    def identity(self) -> ProcessIdentity:
        """Return the identity of the guardian; without /proc only its pid is meaningful."""
        return identify(self._guardian.pid) or ProcessIdentity(self._guardian.pid, 0, "")

    async def send_launch(self, launch: bytes, *, within_seconds: float) -> None:
        """Send the launch; ignore a dead guardian, which `read_reports` detects."""
        try:
            await self._commands.send(launch, within_seconds=within_seconds)
        except (InputClosed, InputStuck):
            return

    def send_command(self, command: GuardianCommand) -> None:
        """Send a command, and SIGCONT in case the guardian was stopped; ignore a dead guardian."""
        self._commands.send_nowait(_COMMAND_LETTERS[command])
        self._guardian.send_signal(signal.SIGCONT)

    def close_commands(self) -> None:
        """Make the guardian kill everything, as if the supervisor had died.

        This also works before the guardian has its launch.
        """
        self._commands.close()
        self._guardian.send_signal(signal.SIGCONT)

    async def read_reports(self, on_report: Callable[[str], None]) -> None:
        """Call `on_report` with each line that the guardian writes, until it has ended."""
        while (line := await self._reports.next_line()) is not None:
            on_report(line)

    @enable_ki_protection
    async def send_continue_periodically(self) -> None:
        """Continue the guardian regularly, because an agent may stop it with SIGSTOP."""
        async for _, since_last in periodic(_CONTINUE_EVERY_SECONDS):
            if since_last is not None:  # it has just started
                self._guardian.send_signal(signal.SIGCONT)

    async def kill_and_wait(self) -> None:
        """Kill the guardian if it has not ended, and wait for it."""
        self._commands.close()
        self._reports.close()
        await self._guardian.kill_and_wait()


async def start_guardian(
    server: ForkServer, *, within_seconds: float
) -> tuple[GuardianClient, AgentStreams]:
    """Start a guardian that waits for its launch; raise `LaunchFailed` if it cannot be started.

    A cancellation leaves no guardian behind: before the start it prevents the start, and once the
    start has begun it has no effect.
    """
    if not _IS_LINUX:
        raise LaunchFailed("agent processes need Linux, which alone can contain them")
    await trio.lowlevel.checkpoint_if_cancelled()
    try:
        with trio.CancelScope(shield=True):  # bounded by `within_seconds`
            guardian = (
                await _fork_guardian(server, within_seconds)
                # By another fork server, if the first one died meanwhile.
                or await _fork_guardian(server, within_seconds)
                or await _run_guardian(server)
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise LaunchFailed(f"a guardian could not be started: {error}") from error
    return guardian


async def _fork_guardian(
    server: ForkServer, within_seconds: float
) -> tuple[GuardianClient, AgentStreams] | None:
    """Have a guardian forked; return None if the fork server died or cannot fork.

    Raise `LaunchFailed` without a guardian after `within_seconds`.
    """
    with ExitStack() as ours:
        with ExitStack() as theirs:
            pipes = Pipes(ours, theirs)
            asked = await server.fork(pipes.theirs)
        reports = GuardianReports(pipes.reports)
        with trio.move_on_after(within_seconds) as bound:
            pid = await _read_pid(reports)
        if bound.cancelled_caught:
            await _give_up(asked.process, reports)
            raise LaunchFailed(f"its guardian was not ready within {within_seconds} s")
        if pid is None:
            return None
        ours.pop_all()
    return GuardianClient(ChildProcess(pid), pipes.commands, reports), pipes.streams()


async def _run_guardian(server: ForkServer) -> tuple[GuardianClient, AgentStreams]:
    """Run a guardian in an interpreter of its own, where none can be forked."""
    with ExitStack() as ours:
        with ExitStack() as theirs:
            pipes = Pipes(ours, theirs)
            started = await server.start_process()
            with started.connection, suppress(OSError):  # it is dead, which `read_reports` detects
                started.send(b"become", pipes.theirs)
        ours.pop_all()
    reports = GuardianReports(pipes.reports)
    return GuardianClient(started.process, pipes.commands, reports), pipes.streams()


async def _read_pid(reports: GuardianReports) -> int | None:
    """Return the pid from the first report; None if the pipe ends without one."""
    line = await reports.next_line()
    return None if line is None else int(line.removeprefix("guardian "))


async def _give_up(server: ChildProcess, reports: GuardianReports) -> None:
    """Kill a fork server that does not answer, and the guardian if it has forked one after all.

    When the fork server is dead, the pipe ends, or has the pid of the guardian.
    """
    server.send_signal(signal.SIGKILL)
    with trio.move_on_after(_GIVE_UP_SECONDS):
        pid = await _read_pid(reports)
        if pid is not None:
            await ChildProcess(pid).kill_and_wait()


class Pipes:
    """The five pipes of a guardian: `theirs` are the ends for it and its agent."""

    def __init__(self, ours: ExitStack, theirs: ExitStack) -> None:
        commands_in, self.commands = _pipe(theirs, ours)
        self.reports, reports_out = _pipe(ours, theirs)
        agent_stdin, self._stdin = _pipe(theirs, ours)
        self._stdout, agent_stdout = _pipe(ours, theirs)
        self._stderr, agent_stderr = _pipe(ours, theirs)
        self.theirs = (commands_in, reports_out, agent_stdin, agent_stdout, agent_stderr)

    def streams(self) -> AgentStreams:
        """Return our ends of the agent's pipes."""
        return AgentStreams(self._stdin, self._stdout, self._stderr)


def _pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """Return the two ends of a pipe."""
    reader, writer = map(move_up, os.pipe())
    readers.callback(os.close, reader)
    writers.callback(os.close, writer)
    return reader, writer


def encode_launch(launch: Launch, marker: Marker) -> bytes:
    """Return the launch as the guardian reads it.

    Raise `LaunchFailed` if the command is empty or a variable is invalid.
    """
    if not launch.command or not launch.command[0]:
        raise LaunchFailed("the command is empty: give at least the name of a program")
    environment = {**launch.environment, MARKER_VARIABLE: str(marker)}
    for name in environment:
        if not name or "=" in name:
            raise LaunchFailed(f"an environment variable cannot be named {short_repr(name)}")
    fields = (
        os.path.abspath(launch.cwd or "."),  # noqa: PTH100 - symbolic links stay as they are
        "" if launch.folder is None else "{}:{}".format(*launch.folder),
        str(len(launch.command)),
        *launch.command,
        *(f"{name}={value}" for name, value in environment.items()),
    )
    body = b"\0".join(map(_encode, fields))
    return b"%d\n" % len(body) + body


def _encode(field: str) -> bytes:
    try:
        encoded = os.fsencode(field)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise LaunchFailed(
            f"{short_repr(field)} contains a character that is not allowed in a command or"
            " environment"
        )
    return encoded


def launch_failure(launch: Launch, number: int, what: str) -> LaunchFailed:
    """Return the error for a failure that the guardian reported, with advice."""
    return LaunchFailed(
        f"{short_repr(launch.command[0])} {_describe_launch_error(launch, number, what)}"
    )


def _describe_launch_error(launch: Launch, number: int, what: str) -> str:
    reason = os.strerror(number)
    match what:
        case "fork":
            return f"got no process: {reason}"
        case "cwd":
            return f"cannot work in {short_repr(launch.cwd)}: {reason}"
        case "folder":
            return f"cannot work in {short_repr(launch.cwd)}: it has been replaced"
        case "interpreter":
            return "exists, but its interpreter does not: check its first line, after #!"
        case _:
            return _PROGRAM_FAILURES.get(number, f"cannot be executed: {reason}")


_PROGRAM_FAILURES: Final = {
    errno.ENOENT: "was not found: install it, add its directory to the agent's PATH, or give its"
    " full path",
    errno.EACCES: "cannot be executed: check its permissions",
    errno.ENOEXEC: "is not a program: a script needs a first line such as #!/bin/sh",
    errno.E2BIG: "got arguments that are too long for the system: pass long text by standard input",
}
