"""Our end of a guardian: start it, send it commands, read its reports.

If the supervisor dies, the command pipe ends, and the guardian kills everything. See `guardian` for
the commands and reports. This module also encodes launches for the guardian, and turns its launch
failures into messages for people.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal, TypeAlias

import trio
from trio.lowlevel import enable_ki_protection
from trio_util import periodic

from supervisor.core.errors import short_repr
from supervisor.drivers.identity import ProcessIdentity, identify

from .environment import MARKER_VARIABLE, Marker
from .pipes import PipeReader, PipeWriter
from .processes import InputClosed, InputStuck, Launch, LaunchFailed

GuardianCommand: TypeAlias = Literal["go", "interrupt", "terminate", "kill"]

_COMMAND_LETTERS: Final[Mapping[GuardianCommand, bytes]] = {
    "go": b"g",
    "interrupt": b"i",
    "terminate": b"t",
    "kill": b"k",
}
# Imported by its short name: with -I and -S no installed package, ours included, is on the path.
# The text must not change: `supervisor_pid` recognises running guardians by it.
_PROGRAM: Final = "import sys; sys.path.append(sys.argv.pop(1)); import guardian; guardian.main()"

_FOLDER: Final = Path(__file__).parents[1]
# Variables that the interpreter itself may need to start.
_INHERITED_VARIABLES: Final = ("LD_LIBRARY_PATH",)

_FIRST_FREE_DESCRIPTOR: Final = 3  # after the standard streams

_POLL_SECONDS: Final = 0.001

_CONTINUE_EVERY_SECONDS: Final = 2.0

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


class GuardianClient:
    """One guardian, a child process of ours.

    Its pid is not reused before `kill_and_wait` returns.
    """

    def __init__(self, guardian: subprocess.Popen[bytes], commands: int, reports: int) -> None:
        self._guardian = guardian
        self._commands = PipeWriter(commands)
        self._reports = PipeReader(reports)

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
        rest = b""
        while chunk := await self._reports.receive():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                on_report(line.decode("ascii", "replace"))

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
        self._guardian.kill()
        while self._guardian.poll() is None:  # noqa: ASYNC110 - it dies within milliseconds
            await trio.sleep(_POLL_SECONDS)


async def start_guardian(*, limiter: trio.CapacityLimiter) -> tuple[GuardianClient, AgentStreams]:
    """Start a guardian that waits for its launch; raise `LaunchFailed` if it cannot be started.

    A cancellation leaves no guardian behind: before the start it prevents the start, and once the
    start has begun it has no effect.
    """
    if not _IS_LINUX:
        raise LaunchFailed("agent processes need Linux, which alone can contain them")
    with ExitStack() as ours, ExitStack() as theirs:
        try:
            commands_in, commands = _pipe(theirs, ours)
            reports, reports_out = _pipe(ours, theirs)
            agent_stdin, stdin = _pipe(theirs, ours)
            stdout, agent_stdout = _pipe(ours, theirs)
            stderr, agent_stderr = _pipe(ours, theirs)
            guardian = await trio.to_thread.run_sync(
                _run_guardian,
                (commands_in, reports_out),
                (agent_stdin, agent_stdout, agent_stderr),
                limiter=limiter,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise LaunchFailed(f"a guardian could not be started: {error}") from error
        ours.pop_all()
    return GuardianClient(guardian, commands, reports), AgentStreams(stdin, stdout, stderr)


def _run_guardian(
    guardian_ends: tuple[int, int], agent_ends: tuple[int, int, int]
) -> subprocess.Popen[bytes]:
    """Start the guardian's process with its ends of the pipes and the ends of its agent."""
    if not sys.executable:
        raise FileNotFoundError("sys.executable is empty: the Python interpreter is unknown")
    numbers = map(str, (os.getpid(), *agent_ends))
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_FOLDER), *numbers],
        stdin=guardian_ends[0],
        stdout=guardian_ends[1],
        stderr=subprocess.DEVNULL,
        pass_fds=agent_ends,
        cwd="/",
        env={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
        # In a process group of its own, so that Ctrl-C on our terminal does not reach it. Not in a
        # session of its own: if the guardian is stopped when we die, the kernel continues it,
        # because its group is orphaned then.
        process_group=0,
    )


def supervisor_pid(guardian: int) -> int | None:
    """Return the pid of the guardian's supervisor, alive or not; None if it is not a guardian."""
    try:
        words = Path(f"/proc/{guardian}/cmdline").read_bytes().split(b"\0")
        place = words.index(_PROGRAM.encode())
        return int(words[place + 2])  # after the folder, see _run_guardian
    except (OSError, ValueError, IndexError):
        return None


def _pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """Return the two ends of a pipe.

    Their numbers are above those of the standard streams, even if this program has closed those.
    """
    ends = []
    for end, owner in zip(os.pipe(), (readers, writers), strict=True):
        number = end
        if end < _FIRST_FREE_DESCRIPTOR:
            number = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR)
            os.close(end)
        owner.callback(os.close, number)
        ends.append(number)
    return ends[0], ends[1]


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
