"""The log file of a detached daemon: `daemon.log` in the state folder, and one older file.

The starter opens the file as standard output and standard error of the daemon, so that what is
printed before the log is set up is in it too. The daemon knows by the file that it is detached.

Rule 1: the file is readable by its owner only, and has at most `MAX_LOG_BYTES` and a line; then it
        becomes `daemon.log.1`, which replaces an older one.
Rule 2: a file that cannot be moved grows; no line is lost for that.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, TextIO

from supervisor.configuration.private_files import OTHERS_ANY, check_owner_and_mode

MAX_LOG_BYTES: Final = 10 * 1024 * 1024

_OWNER_ONLY: Final = 0o600
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


def open_log_file(path: Path) -> int:
    """Return a descriptor that appends to the log file, which is created if it is missing.

    Raise `OSError` if it cannot be opened, and `ConfigError` if other users may read it.
    """
    descriptor = os.open(path, _FLAGS, _OWNER_ONLY)
    try:
        check_owner_and_mode(path, os.fstat(descriptor), OTHERS_ANY, expected_mode="600")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def older_log(path: Path) -> Path:
    """Return the path of the older log file."""
    return path.with_name(f"{path.name}.1")


def is_log_file(stream: TextIO, path: Path) -> bool:
    """Return True if the stream writes to the file at the path."""
    with contextlib.suppress(OSError, ValueError):
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    return False


class CappedLog:
    """Writes to a stream that is the log file, and begins a new file when it is full.

    The descriptors of standard output and standard error are moved to the new file.
    """

    def __init__(self, stream: TextIO, path: Path, *, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._stream = stream
        self._path = path
        self._max_bytes = max_bytes

    def write(self, text: str) -> None:
        """Write the text."""
        self._stream.write(text)

    def flush(self) -> None:
        """Write buffered text to the file, and begin a new file if this one is full."""
        self._stream.flush()
        with contextlib.suppress(OSError):
            if os.fstat(self._stream.fileno()).st_size >= self._max_bytes:
                self._begin_new_file()

    def _begin_new_file(self) -> None:
        self._path.replace(older_log(self._path))
        descriptor = os.open(self._path, _FLAGS, _OWNER_ONLY)
        try:
            for target in {self._stream.fileno(), *_standard_descriptors()}:
                os.dup2(descriptor, target)
        finally:
            os.close(descriptor)


def _standard_descriptors() -> tuple[int, ...]:
    """Return the descriptors of standard output and error that write to the same file."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(1), os.fstat(2)):
            return (1, 2)
    return ()
