"""Who a process is: a pid says only who bears it now.

A pid is used again, but never with the same start time in the same run of the machine. So the three
together name one process for ever, and what was left over by a dead supervisor can be killed
without ever hitting somebody who came to bear its pid later.

Where there is no /proc nobody can be identified, and so nobody is killed.
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
# After the name, which stands in parentheses and may have anything in it, parentheses included.
_STATE: Final = 0
_THREADS: Final = 17
_START_TIME: Final = 19
# Dead, and only waiting for its parent to ask how it went; or about to vanish.
_DEAD: Final = frozenset({b"Z", b"X", b"x"})

WAIT_SECONDS: Final = 2.0
_LOOK_EVERY_SECONDS: Final = 0.01


@attrs.frozen
class ProcessIdentity:
    """One process, and never another one; `start_time` is in clock ticks since the boot."""

    pid: int
    start_time: int
    boot_id: str


# killed: it is dead now, by us. gone: it was dead before. recycled: another process bears its pid,
# and was not touched. owned: its supervisor lives, and it was not touched either. unkillable: it
# lives on, and `detail` says as far as we know why.
Fate: TypeAlias = Literal["killed", "gone", "recycled", "owned", "unkillable"]


@attrs.frozen
class Leftover:
    """What became of a process that was to be killed."""

    identity: ProcessIdentity
    fate: Fate
    detail: str | None = None


def identify(pid: int) -> ProcessIdentity | None:
    """Who bears that pid now; None if nobody does.

    A zombie is nobody: it runs no more, and no signal does anything to it.
    """
    if pid < 1:
        return None  # these are groups of processes, and the kernel's own
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
        boot_id = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError):
        return None
    start_time = parse_stat(stat)
    return None if start_time is None else ProcessIdentity(pid, start_time, boot_id)


def parse_stat(stat: bytes) -> int | None:
    """The start time in the text of a /proc/PID/stat; None if it is no such text, or a zombie's."""
    fields = stat.rpartition(b")")[2].split()
    if len(fields) <= _START_TIME or not fields[_START_TIME].isdigit():
        return None
    # Of a process whose first thread has ended and others have not, /proc says that it is a zombie.
    if fields[_STATE] in _DEAD and fields[_THREADS] in (b"0", b"1"):
        return None
    return int(fields[_START_TIME])


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether this very process still runs."""
    return identify(identity.pid) == identity


async def kill_leftovers(
    identities: Iterable[ProcessIdentity], *, wait_seconds: float = WAIT_SECONDS
) -> list[Leftover]:
    """Kill those that still run, and nobody else; answers when all are dead, or the time is over.

    All are signalled before any is waited for. If it is cancelled, the signals are out already.
    """
    identities = tuple(identities)
    with ExitStack() as open_files:
        attempts = [_Attempt(identity, open_files) for identity in identities]
        with trio.move_on_after(wait_seconds):
            for attempt in attempts:
                await attempt.wait_over()
        await trio.lowlevel.checkpoint()
        return [attempt.result() for attempt in attempts]


class _Attempt:
    """One process that is to be killed."""

    def __init__(self, identity: ProcessIdentity, open_files: ExitStack) -> None:
        self._identity = identity
        self._handle: int | None = None
        # Invariant: None exactly while a signal is out and its work is not known to be done.
        self._fate: Fate | None = None
        self._detail: str | None = None
        try:
            self._signal(open_files)
        except ProcessLookupError:
            self._fate = "gone"
        except OSError as error:
            self._fate, self._detail = "unkillable", str(error)

    def _signal(self, open_files: ExitStack) -> None:
        identity = self._identity
        self._fate = _who_bears(identity)
        if self._fate is not None:
            return
        if identity.pid in (1, os.getpid()):
            self._fate, self._detail = "unkillable", "it is no agent of ours"
            return
        self._handle = _open_handle(identity.pid)
        if self._handle is None:
            # Between the look and the signal another would have to be born under the same pid,
            # which the kernel gives out again only after all others.
            os.kill(identity.pid, signal.SIGKILL)
            return
        open_files.callback(os.close, self._handle)
        # Looked at again, for the handle holds whoever bore the pid when it was opened: from here
        # on it can be nobody else.
        self._fate = _who_bears(identity)
        if self._fate is None:
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def wait_over(self) -> None:
        """Return when nothing more is to be expected."""
        if self._fate is not None:
            return
        if self._handle is not None:
            await trio.lowlevel.wait_readable(self._handle)
        while is_alive(self._identity):  # noqa: ASYNC110 - nobody tells us
            await trio.sleep(_LOOK_EVERY_SECONDS)
        self._fate = "killed"

    def result(self) -> Leftover:
        """What became of it, as of now."""
        if self._fate is not None:
            return Leftover(self._identity, self._fate, self._detail)
        if not is_alive(self._identity):
            return Leftover(self._identity, "killed")
        return Leftover(self._identity, "unkillable", "it was sent SIGKILL and has not died yet")


def _open_handle(pid: int) -> int | None:
    """A descriptor for whoever bears that pid, and nobody after; None if the system has none."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # not in this Python, or not in this kernel
        return None


def _who_bears(identity: ProcessIdentity) -> Literal["gone", "recycled"] | None:
    """What has become of the process without us; None if it runs."""
    now = identify(identity.pid)
    if now is None:
        return "gone"
    return None if now == identity else "recycled"
