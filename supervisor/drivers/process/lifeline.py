"""Our end of a guardian: how it is started, what it is ordered, and what it says.

If we die, in whatever way, the pipe on which it gets orders ends; see `guardian` for what it does
then, and for what its lines mean.
"""

from __future__ import annotations

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

from supervisor.drivers.identity import ProcessIdentity, identify

from .pipes import Inlet, Outlet
from .port import InputClosed, InputStuck, LaunchFailed

Order: TypeAlias = Literal["go", "interrupt", "terminate", "kill"]

_LETTERS: Final[Mapping[Order, bytes]] = {
    "go": b"g",
    "interrupt": b"i",
    "terminate": b"t",
    "kill": b"k",
}
# By its short name: with -I and -S nothing of the user's is imported, and so nothing else of ours.
_PROGRAM: Final = "import sys; sys.path.append(sys.argv.pop(1)); import guardian; guardian.main()"
_FOLDER: Final = Path(__file__).parents[1]
# What the interpreter itself may need to be found whole.
_ENVIRONMENT: Final = ("LD_LIBRARY_PATH",)
_FIRST_FREE: Final = 3  # below are the standard streams
_LOOK_EVERY_SECONDS: Final = 0.001
_CONTINUE_EVERY_SECONDS: Final = 2.0
_IS_LINUX: Final = sys.platform == "linux"


class Streams:
    """Our ends of the agent's three pipes."""

    def __init__(self, stdin: int, stdout: int, stderr: int) -> None:
        self.stdin = Inlet(stdin)
        self.stdout = Outlet(stdout)
        self.stderr = Outlet(stderr)

    def give_up(self) -> None:
        """Expect nothing more of whoever holds the other ends."""
        self.stdout.give_up()
        self.stderr.give_up()

    def close(self) -> None:
        """Close what is not closed yet."""
        for end in (self.stdin, self.stdout, self.stderr):
            end.close()


class Lifeline:
    """One guardian; it is our child, so its pid is its own until `end` has been waited for."""

    def __init__(self, guardian: subprocess.Popen[bytes], orders: int, said: int) -> None:
        self._guardian = guardian
        self._orders = Inlet(orders)
        self._said = Outlet(said)

    def identity(self) -> ProcessIdentity:
        """Who the guardian is; where nobody can be identified, only its pid means something."""
        return identify(self._guardian.pid) or ProcessIdentity(self._guardian.pid, 0, "")

    async def send(self, launch: bytes, *, within_seconds: float) -> None:
        """Say what is to run; a guardian that is dead is heard of in another way."""
        try:
            await self._orders.send(launch, within_seconds=within_seconds)
        except (InputClosed, InputStuck):
            return

    def order(self, order: Order) -> None:
        """Have that done; a dead guardian does nothing, and one that was stopped goes on."""
        self._orders.send_nowait(_LETTERS[order])
        self._guardian.send_signal(signal.SIGCONT)

    def cut(self) -> None:
        """Have everything killed, as if we were dead; also if it does not yet know what to run."""
        self._orders.close()
        self._guardian.send_signal(signal.SIGCONT)

    async def listen(self, hear: Callable[[str], None]) -> None:
        """Hand on what it says, line by line, until it is no more."""
        rest = b""
        while piece := await self._said.receive():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                hear(line.decode("ascii", "replace"))

    @enable_ki_protection
    async def keep_awake(self) -> None:
        """See to it that nobody stops it for long, an agent of its own least of all."""
        while True:
            await trio.sleep(_CONTINUE_EVERY_SECONDS)
            self._guardian.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Kill it, if it has not ended, and wait for it."""
        self._orders.close()
        self._said.close()
        self._guardian.kill()
        while self._guardian.poll() is None:  # noqa: ASYNC110 - it is dead in a moment
            await trio.sleep(_LOOK_EVERY_SECONDS)


async def start_guardian(*, limiter: trio.CapacityLimiter) -> tuple[Lifeline, Streams]:
    """A guardian that waits for its launch; raises `LaunchFailed`.

    If it is cancelled no guardian is there: once its start has begun it is not interrupted.
    """
    if not _IS_LINUX:
        raise LaunchFailed("agents that are processes are contained by means that only Linux has")
    with ExitStack() as ours, ExitStack() as theirs:
        try:
            orders_seen, orders = _pipe(theirs, ours)
            said, say = _pipe(ours, theirs)
            stdin_seen, stdin = _pipe(theirs, ours)
            stdout, stdout_given = _pipe(ours, theirs)
            stderr, stderr_given = _pipe(ours, theirs)
            guardian = await trio.to_thread.run_sync(
                _run_guardian,
                (orders_seen, say),
                (stdin_seen, stdout_given, stderr_given),
                limiter=limiter,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise LaunchFailed(f"a guardian could not be started: {error}") from error
        ours.pop_all()
    return Lifeline(guardian, orders, said), Streams(stdin, stdout, stderr)


def _run_guardian(own: tuple[int, int], agents: tuple[int, int, int]) -> subprocess.Popen[bytes]:
    """In a session of its own, where no Ctrl-C at a terminal reaches it."""
    if not sys.executable:
        raise FileNotFoundError("this program does not know its own interpreter")
    numbers = map(str, (os.getpid(), *agents))
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_FOLDER), *numbers],
        stdin=own[0],
        stdout=own[1],
        stderr=subprocess.DEVNULL,
        pass_fds=agents,
        cwd="/",
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        # In a group of its own, so that no key on our terminal ends it; but not in a session of its
        # own: if somebody has stopped it when we die, the kernel continues such an orphan.
        process_group=0,
    )


def supervisor_of(guardian: int) -> int | None:
    """The pid of who has started that guardian, alive or not; None if it is no guardian."""
    try:
        words = Path(f"/proc/{guardian}/cmdline").read_bytes().split(b"\0")
        place = words.index(_PROGRAM.encode())
        return int(words[place + 2])  # behind the folder, as above
    except (OSError, ValueError, IndexError):
        return None


def _pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """Its two ends; none of the first three numbers, even in a program that has closed those."""
    ends = []
    for end, owner in zip(os.pipe(), (readers, writers), strict=True):
        number = end
        if end < _FIRST_FREE:
            number = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
            os.close(end)
        owner.callback(os.close, number)
        ends.append(number)
    return ends[0], ends[1]
