"""Identity of a process: pid, start time and boot id.

A pid alone is reused, but never with the same start time in the same boot. The three together
identify one process for ever, so an orphan can be killed without the risk of killing a later
process with the same pid.

Without /proc no process can be identified, and so none is killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs
import trio

_PROC: Final = Path("/proc")
# Positions in /proc/PID/stat after the process name, which stands in parentheses and may itself
# contain anything, parentheses included.
_STATE: Final = 0
_PARENT: Final = 1
_SESSION: Final = 3
_THREADS: Final = 17
_START_TIME: Final = 19
# A zombie that its parent has not waited for, or a process that is about to vanish.
_DEAD: Final = frozenset({b"Z", b"X", b"x"})

WAIT_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.01


@attrs.frozen
class ProcessIdentity:
    """The permanent identity of one process; `start_time` is in clock ticks since the boot."""

    pid: int
    start_time: int
    boot_id: str


# killed: dead now, by our signal. gone: was dead before. recycled: another process has its pid now
# and was not touched. owned: its supervisor is alive, so it was not touched either. unkillable:
# still alive, and `detail` has the reason if it is known.
KillOutcome: TypeAlias = Literal["killed", "gone", "recycled", "owned", "unkillable"]


@attrs.frozen
class KillResult:
    """The outcome of the attempt to kill one process."""

    identity: ProcessIdentity
    outcome: KillOutcome
    detail: str | None = None


@attrs.frozen
class ProcessStat:
    """The fields of a /proc/PID/stat that we use; `state` is its one letter."""

    state: bytes
    parent: int
    session: int
    start_time: int
    # True for a zombie. A process whose first thread has ended while others run is shown as a
    # zombie in `state` and is not dead.
    is_dead: bool


def parse_stat(stat: bytes) -> ProcessStat | None:
    """Return the fields of the text of a /proc/PID/stat; None if the text is malformed."""
    fields = stat.rpartition(b")")[2].split()
    if len(fields) <= _START_TIME:
        return None
    try:
        parent, session, start_time = (
            int(fields[place]) for place in (_PARENT, _SESSION, _START_TIME)
        )
    except ValueError:
        return None
    is_dead = fields[_STATE] in _DEAD and fields[_THREADS] in (b"0", b"1")
    return ProcessStat(fields[_STATE], parent, session, start_time, is_dead)


def read_stat(pid: int) -> ProcessStat | None:
    """Return the fields of /proc/PID/stat; None if the process or /proc does not exist."""
    try:
        return parse_stat((_PROC / str(pid) / "stat").read_bytes())
    except (OSError, ValueError):
        return None


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the live process with that pid; None if no such process lives.

    A zombie counts as dead: it runs no code, and signals have no effect on it.
    """
    if pid < 1:
        return None  # kill() takes these for process groups
    stat = read_stat(pid)
    if stat is None or stat.is_dead:
        return None
    boot_id = read_boot_id()
    return None if boot_id is None else ProcessIdentity(pid, stat.start_time, boot_id)


def read_boot_id() -> str | None:
    """Return the id of the running boot of this machine; None where the kernel has none."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError):
        return None


def is_alive(identity: ProcessIdentity) -> bool:
    """Return True if exactly this process is still alive."""
    return identify(identity.pid) == identity


async def kill_processes(
    identities: Iterable[ProcessIdentity], *, wait_seconds: float = WAIT_SECONDS
) -> list[KillResult]:
    """Kill the processes that are still alive, and return the outcomes, in the order given.

    Returns when all are dead or `wait_seconds` have passed. All are signalled before any is waited
    for; on cancellation the signals have already been sent.
    """
    identities = tuple(identities)
    with ExitStack() as open_files:
        attempts = [_KillAttempt(identity, open_files) for identity in identities]
        with trio.move_on_after(wait_seconds):
            for attempt in attempts:
                await attempt.wait_dead()
        await trio.lowlevel.checkpoint()
        return [attempt.result() for attempt in attempts]


class _KillAttempt:
    """The attempt to kill one process; the signal is sent on construction."""

    def __init__(self, identity: ProcessIdentity, open_files: ExitStack) -> None:
        self._identity = identity
        self._pidfd: int | None = None
        # Invariant: None exactly while a signal was sent and the death has not been seen.
        self._outcome: KillOutcome | None = None
        self._detail: str | None = None
        try:
            self._signal(open_files)
        except ProcessLookupError:
            self._outcome = "gone"
        except OSError as error:
            self._outcome, self._detail = "unkillable", str(error)

    def _signal(self, open_files: ExitStack) -> None:
        identity = self._identity
        self._outcome = _check_pid_owner(identity)
        if self._outcome is not None:
            return
        if identity.pid in (1, os.getpid()):
            self._outcome, self._detail = "unkillable", "it is not an agent process"
            return
        self._pidfd = _open_pidfd(identity.pid)
        if self._pidfd is None:
            # The pid cannot have been reused since the check: the kernel hands out a pid again only
            # after it has gone through all others.
            os.kill(identity.pid, signal.SIGKILL)
            return
        open_files.callback(os.close, self._pidfd)
        # Checked again, because the handle refers to the process that had the pid when it was
        # opened. From here on it cannot refer to another one.
        self._outcome = _check_pid_owner(identity)
        if self._outcome is None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def wait_dead(self) -> None:
        """Wait until the outcome is known."""
        if self._outcome is not None:
            return
        if self._pidfd is not None:
            await trio.lowlevel.wait_readable(self._pidfd)
        while is_alive(self._identity):  # noqa: ASYNC110 - there may be no event to wait for
            await trio.sleep(_POLL_SECONDS)
        self._outcome = "killed"

    def result(self) -> KillResult:
        """Return the outcome at this moment."""
        if self._outcome is not None:
            return KillResult(self._identity, self._outcome, self._detail)
        if not is_alive(self._identity):
            return KillResult(self._identity, "killed")
        return KillResult(self._identity, "unkillable", "SIGKILL was sent, but it is still alive")


def _open_pidfd(pid: int) -> int | None:
    """Return a handle of the process with that pid; None if the system has no pidfd."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # this Python or this kernel has no pidfd
        return None


def _check_pid_owner(identity: ProcessIdentity) -> Literal["gone", "recycled"] | None:
    """Return why the process cannot be killed; None if it is alive."""
    now = identify(identity.pid)
    if now is None:
        return "gone"
    return None if now == identity else "recycled"
