"""Starting the daemon: a detached process, as if `understudy serve` were typed in this folder.

The process has its own session, so the end of the terminal does not reach it. It reads nothing, and
writes to the log file in the state folder.

Rule 1: of several commands at once, the holder of the start lock starts the daemon, and the others
        wait for it. The lock of the socket decides between it and a daemon started otherwise.
Rule 2: every wait is bounded and blocks; Ctrl-C ends it, and leaves the daemon to itself.
Rule 3: a command that only reads starts nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from supervisor.core.errors import SupervisorError

from .blocking_progress import BlockingProgress
from .common_options import chosen_host, is_start_refused
from .daemon_place import DaemonPlace, is_listening
from .host_connection import reach_host
from .output import Screen

if TYPE_CHECKING:
    from supervisor.configuration import DaemonSettings

# A store of 10,000 sessions is recovered in 3 s.
START_SECONDS: Final = 60.0

_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.1
_MAX_LOG_LINES: Final = 10
_MAX_LOG_BYTES: Final = 16 * 1024
_OWNER_ONLY: Final = 0o600
_START_LOCK: Final = "start.lock"
# Signals that a shell or nohup may have set to be ignored.
_DEFAULT_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
# Variables that are meant for this process, not for the daemon.
_OWN_VARIABLES: Final = (
    "JOURNAL_STREAM",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "UNDERSTUDY_HOST",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
)


class DaemonStartFailed(SupervisorError):
    """The daemon could not be started, or does not listen in time."""


@attrs.frozen
class StartedDaemon:
    """A daemon that listens; `pid` is None if another command has started it."""

    pid: int | None
    socket: str
    log: str


@contextmanager
def reach_daemon(screen: Screen, *, start: bool = False) -> Iterator[DaemonPlace]:
    """Yield the arguments for `connect()`, for the daemon that the user has chosen.

    With `start`, start the configured daemon if it is not running, as `ensure_daemon` does. Raise
    `DaemonStartFailed`, `HostNotFound` or `HostUnreachable`.
    """
    host = chosen_host()
    if host is None:
        if start:
            ensure_daemon(screen)
        yield DaemonPlace()
        return
    with reach_host(screen, host) as place:
        yield place


def ensure_daemon(screen: Screen) -> None:
    """Start the configured daemon if none listens, and wait until it listens.

    Do nothing with `--no-start`, with `daemon.autostart = false`, or if the command uses another
    host. Raise `DaemonStartFailed` if the daemon does not start.
    """
    from supervisor.client.address import find_address  # noqa: PLC0415 - late

    if chosen_host() is None:
        path = find_address(None, None, os.environ).socket
        if path is not None and not is_listening(path):
            start_if_allowed(screen)


def start_if_allowed(screen: Screen) -> bool:
    """Start the configured daemon; return False if the user does not want that."""
    if is_start_refused():
        return False
    from supervisor.configuration.loader import load  # noqa: PLC0415 - slow to import

    settings = load(cwd=working_folder(), environ=os.environ).daemon
    if not settings.autostart:
        return False
    started = start_daemon(screen, settings)
    if started.pid is not None:
        screen.note(
            f"Started the daemon (process {started.pid}); `understudy down` ends it,"
            " `understudy logs` shows its log."
        )
    return True


def working_folder() -> Path | None:
    """Return the working folder; None if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def start_daemon(
    screen: Screen, settings: DaemonSettings, *, arguments: Sequence[str] = ()
) -> StartedDaemon:
    """Start a detached daemon, unless one listens, and return when it listens.

    `arguments` are options of `serve`. Raise `DaemonStartFailed`.
    """
    path, deadline = Path(settings.socket), time.monotonic() + START_SECONDS
    _make_folders(settings)
    pid: int | None = None
    with BlockingProgress(screen) as progress:
        wait = _Wait(path, deadline, progress)
        with _start_lock(wait) as has_lock:
            if has_lock and not wait.is_taken():
                pid, log_start = _spawn(settings, arguments)
                code = wait.until_listening(pid)
                if code is not None:
                    raise _exited(code, Path(settings.log_file), log_start)
                pid = None if wait.has_other_daemon else pid
    return StartedDaemon(pid, settings.socket, settings.log_file)


@attrs.define
class _Wait:
    """A bounded wait for a daemon."""

    _socket: Path
    _deadline: float
    _progress: BlockingProgress
    # Another daemon has the lock of the socket; ours has left it the place.
    has_other_daemon: bool = False

    def pauses(self) -> Iterator[None]:
        """Yield after each pause; raise `DaemonStartFailed` when the time is over."""
        pause = _FIRST_PAUSE_SECONDS
        while time.monotonic() < self._deadline:
            self._progress.show("starting the daemon")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            yield
        raise DaemonStartFailed(
            f"the daemon does not listen on {self._socket} after {START_SECONDS:g} s",
            hint="it may still be recovering: see `understudy logs`, and try again",
        )

    def is_lock_held(self) -> bool:
        """Return True if a daemon has the lock of the socket, listening or not."""
        from supervisor.store.sqlite.lock import is_held  # noqa: PLC0415 - late

        return is_held(self._socket)

    def is_listening(self) -> bool:
        """Return True if a daemon listens."""
        return is_listening(str(self._socket))

    def is_taken(self) -> bool:
        """Return True once a daemon listens, False if none has the lock of the socket.

        A daemon that has the lock and does not listen starts or exits.
        """
        pauses = self.pauses()
        while not self.is_listening():
            if not self.is_lock_held():
                return False
            next(pauses)
        return True

    def until_listening(self, pid: int) -> int | None:
        """Wait until a daemon listens; return the exit code of the process if it ends before."""
        pauses = self.pauses()
        while not self.is_listening():
            code = _exit_code(pid)
            if code is not None:
                # Another daemon may have taken the lock first.
                self.has_other_daemon = self.is_taken()
                return None if self.has_other_daemon else code
            next(pauses)
        return None


@contextmanager
def _start_lock(wait: _Wait) -> Iterator[bool]:
    """Hold the start lock in the block, and yield True; yield False once a daemon listens."""
    path = wait._socket.with_name(_START_LOCK)  # noqa: SLF001 - of this module
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, _OWNER_ONLY)
    except OSError as error:
        raise _cannot(f"open {path}", error) from error
    try:
        yield _acquire(descriptor, wait)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, wait: _Wait) -> bool:
    pauses = wait.pauses()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if wait.is_listening():
                return False
            next(pauses)
        except OSError:  # a file system without locks: the lock of the socket decides
            return True
        else:
            return True


def _make_folders(settings: DaemonSettings) -> None:
    from supervisor.daemon.folders import make_folder  # noqa: PLC0415 - late

    try:
        make_folder(Path(settings.socket).parent, others="nothing")
        make_folder(Path(settings.state_folder), others="look")
    except SupervisorError as error:
        raise DaemonStartFailed(
            f"the daemon cannot start: {error.args[0]}", hint=error.hint
        ) from error


def _spawn(settings: DaemonSettings, arguments: Sequence[str]) -> tuple[int, int]:
    """Start the process; return its pid, and the size of the log file before."""
    from supervisor.daemon.log_file import open_log_file  # noqa: PLC0415 - late

    log = Path(settings.log_file)
    try:
        descriptor = open_log_file(log)
    except OSError as error:
        raise _cannot(f"write its log {log}", error) from error
    except SupervisorError as error:
        raise DaemonStartFailed(
            f"the daemon cannot start: {error.args[0]}", hint=error.hint
        ) from error
    # -P: a module in this folder must not replace one of ours.
    command = [sys.executable, "-P", "-m", "supervisor.cli", "serve", *arguments]
    try:
        size = os.fstat(descriptor).st_size
        pid = os.posix_spawn(
            sys.executable,
            command,
            _daemon_environment(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, descriptor, 1),
                (os.POSIX_SPAWN_DUP2, descriptor, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    except OSError as error:
        raise _cannot(f"run {sys.executable}", error) from error
    finally:
        os.close(descriptor)
    return pid, size


def _daemon_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in _OWN_VARIABLES}


def _exit_code(pid: int) -> int | None:
    """Return the exit code of our child, negative for a signal; None while it runs."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 1  # reaped by another part of the program, so it has ended
    return os.waitstatus_to_exitcode(status) if found else None


def _exited(code: int, log: Path, log_start: int) -> DaemonStartFailed:
    lines = _log_lines(log, log_start)
    shown = "".join(f"\n  {line}" for line in lines)
    how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
    return DaemonStartFailed(
        f"the daemon ended {how} before it listened{':' if shown else ''}{shown}",
        hint=f"correct the cause; its log is {log}",
    )


def _log_lines(log: Path, start: int) -> list[str]:
    """Return the last lines that were logged behind `start`."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(start, end - _MAX_LOG_BYTES))
        return file.read(_MAX_LOG_BYTES).decode(errors="replace").splitlines()[-_MAX_LOG_LINES:]
    return []


def _cannot(what: str, error: OSError) -> DaemonStartFailed:
    return DaemonStartFailed(
        f"the daemon cannot start: cannot {what}: {error.strerror}",
        hint="check the mode and the owner of the folder, and the disk; `understudy doctor` does",
    )
