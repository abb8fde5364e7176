"""The way to the daemon of another host, open for the duration of a command.

Over ssh the client forwards a socket in a folder of its own to that of the daemon. The forward is a
plain `ssh -N -L`: it uses no connection of other programs, asks nothing, and ends with the command.

Rule 1: every wait is bounded. An error has the last line that ssh has printed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from supervisor.core.errors import SupervisorError

from .blocking_progress import BlockingProgress
from .daemon_place import DaemonPlace, is_listening
from .failures import require_file
from .host_file import Host, find_host
from .output import Screen

# Time until the forward listens, and until the socket's path is answered.
SSH_SECONDS: Final = 30.0

_PAUSE_SECONDS: Final = 0.02
_END_SECONDS: Final = 2.0
_NOT_FOUND: Final = 127
_PR_SET_PDEATHSIG: Final = 1
_OPTIONS: Final = (
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ControlMaster=no",
    "ControlPath=none",
    "ExitOnForwardFailure=yes",
    "ServerAliveInterval=15",
)


class HostUnreachable(SupervisorError):
    """The host cannot be reached with ssh."""


@contextmanager
def reach_host(screen: Screen, name: str) -> Iterator[DaemonPlace]:
    """Yield the place of the host's daemon, which can be reached during the block.

    Raise `HostNotFound` or `HostUnreachable`.
    """
    host = find_host(name, os.environ)
    if host.ssh is None:
        require_file(
            str(host.token_file),
            hint="copy the token of the daemon there: `understudy config token` prints it",
        )
        yield DaemonPlace(f"http://127.0.0.1:{host.port}", host.token_file, name)
        return
    with (
        tempfile.TemporaryDirectory(prefix="understudy-", ignore_cleanup_errors=True) as folder,
        BlockingProgress(screen) as progress,
    ):
        remote = host.socket or _ask_socket(host)
        with _forward(host, remote, Path(folder), progress) as place:
            yield place


def _ask_socket(host: Host) -> str:
    """Return the path of the daemon's socket on the host."""
    command = [*_ssh(), "--", _destination(host), "understudy config get daemon.socket"]
    try:
        done = subprocess.run(  # noqa: S603 - the destination is checked, see host_file
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SSH_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise _no_ssh(host) from None
    except subprocess.TimeoutExpired:
        raise _unreachable(host, f"no answer within {SSH_SECONDS:g} s") from None
    path = done.stdout.decode(errors="replace").strip()
    if done.returncode == 0 and path.startswith("/"):
        return path
    detail = _last_line(done.stderr) or f"ssh ended with {done.returncode}"
    if done.returncode == _NOT_FOUND:
        raise HostUnreachable(
            f"host {host.name} ({host.way}) has no `understudy` in the PATH of ssh: {detail}",
            hint=f"give the path: `understudy hosts add {host.name} {host.ssh} --socket PATH`",
        )
    raise _unreachable(host, detail)


@contextmanager
def _forward(
    host: Host, remote: str, folder: Path, progress: BlockingProgress
) -> Iterator[DaemonPlace]:
    local, errors = folder / "daemon.sock", folder / "ssh.err"
    command = [*_ssh(), "-N", "-L", f"{local}:{remote}", "--", _destination(host)]
    with errors.open("wb") as stderr:
        try:
            ssh = subprocess.Popen(  # noqa: S603 - see above
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                # Ctrl-C is for the command, which may still need the forward.
                process_group=0,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - no other thread forks here
            )
        except FileNotFoundError:
            raise _no_ssh(host) from None

    def detail() -> str:
        return _last_line(errors.read_bytes())

    try:
        _wait_for_forward(host, ssh, local, progress, detail)
        yield DaemonPlace(str(local), None, host.name, detail)
    finally:
        _end(ssh)


def _wait_for_forward(
    host: Host,
    ssh: subprocess.Popen[bytes],
    local: Path,
    progress: BlockingProgress,
    detail: Callable[[], str],
) -> None:
    deadline = time.monotonic() + SSH_SECONDS
    while not local.exists() or not is_listening(str(local)):
        if ssh.poll() is not None:
            raise _unreachable(host, detail() or f"ssh ended with {ssh.returncode}")
        if time.monotonic() > deadline:
            raise _unreachable(host, detail() or f"no forward within {SSH_SECONDS:g} s")
        progress.show(f"connecting to {host.name}")
        time.sleep(_PAUSE_SECONDS)
    progress.hide()


def _end(ssh: subprocess.Popen[bytes]) -> None:
    ssh.terminate()
    try:
        ssh.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        ssh.kill()
        ssh.wait()


def _end_with_parent() -> None:
    """Let the kernel end this process when the command is killed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _ssh() -> list[str]:
    return ["ssh", *(word for option in _OPTIONS for word in ("-o", option))]


def _destination(host: Host) -> str:
    assert host.ssh is not None
    return host.ssh


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _no_ssh(host: Host) -> HostUnreachable:
    return HostUnreachable(
        f"host {host.name} needs ssh, which is not installed",
        hint="install the OpenSSH client, or use a tunnel: `understudy hosts add NAME --tcp PORT`",
    )


def _unreachable(host: Host, detail: str) -> HostUnreachable:
    return HostUnreachable(
        f"host {host.name} cannot be reached ({host.way}): {detail}",
        hint=f"try `ssh {host.ssh} true`; it must work without a password",
    )
