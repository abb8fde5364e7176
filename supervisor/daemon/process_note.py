"""A note about the daemon's process beside its socket, for commands that did not start it.

`understudy status` and `logs` read the state folder and the port, which may be options of `serve`;
`understudy down` reads the exit code, which the system tells only the parent of a process.

Rule 1: the note is a hint. A daemon that cannot write it works as it would have.
Rule 2: only the holder of the socket's lock writes it, and a reader compares the pid.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Final

import attrs

from supervisor.configuration.schema import DaemonSettings, log_file_in

_OWNER_ONLY: Final = 0o600
_MAX_BYTES: Final = 16 * 1024


@attrs.frozen
class ProcessNote:
    """A daemon's pid, state folder and TCP port, and its exit code once it has ended."""

    pid: int
    state_folder: str
    tcp_port: int | None = None
    exit_code: int | None = None

    @property
    def log_file(self) -> str:
        """Path of the log, if the daemon is detached."""
        return log_file_in(self.state_folder)


def note_start(settings: DaemonSettings) -> None:
    """Note that this process is the daemon."""
    note = ProcessNote(os.getpid(), settings.state_folder, settings.tcp_port)
    _write(_path(settings.socket), note)


def note_exit(socket: str, code: int) -> None:
    """Note the exit code of this process, if it was the daemon."""
    note = read_process_note(socket, os.getpid())
    if note is not None:
        _write(_path(socket), attrs.evolve(note, exit_code=int(code)))


def read_process_note(socket: str, pid: int) -> ProcessNote | None:
    """Return the note of the daemon with the pid; None if there is none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(_path(socket).read_bytes()[:_MAX_BYTES])
        if known["pid"] == pid:
            return ProcessNote(pid, known["state_folder"], known["tcp_port"], known["exit_code"])
    return None


def _path(socket: str) -> Path:
    return Path(f"{socket}.json")


def _write(path: Path, note: ProcessNote) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
        try:
            os.write(descriptor, json.dumps(attrs.asdict(note)).encode())
        finally:
            os.close(descriptor)
        temporary.replace(path)
