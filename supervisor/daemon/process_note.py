"""A note about the daemon's process in the state folder, for commands that did not start it.

`understudy status` reads the port, and `understudy down` the exit code, which the system tells only
the parent of a process.

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

_NAME: Final = "daemon.json"
_OWNER_ONLY: Final = 0o600
_MAX_BYTES: Final = 4096


@attrs.frozen
class ProcessNote:
    """The pid of a daemon, its TCP port, and its exit code once it has ended."""

    pid: int
    tcp_port: int | None = None
    exit_code: int | None = None


def note_start(state_folder: str, tcp_port: int | None) -> None:
    """Note that this process is the daemon."""
    _write(state_folder, ProcessNote(os.getpid(), tcp_port))


def note_exit(state_folder: str, code: int) -> None:
    """Note the exit code of this process, if it was the daemon."""
    note = read_process_note(state_folder, os.getpid())
    if note is not None:
        _write(state_folder, attrs.evolve(note, exit_code=int(code)))


def read_process_note(state_folder: str, pid: int) -> ProcessNote | None:
    """Return the note of the daemon with the pid; None if there is none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads((Path(state_folder) / _NAME).read_bytes()[:_MAX_BYTES])
        if known["pid"] == pid:
            return ProcessNote(pid, known["tcp_port"], known["exit_code"])
    return None


def _write(state_folder: str, note: ProcessNote) -> None:
    path = Path(state_folder) / _NAME
    temporary = path.with_name(f".{_NAME}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
        try:
            os.write(descriptor, json.dumps(attrs.asdict(note)).encode())
        finally:
            os.close(descriptor)
        temporary.replace(path)
