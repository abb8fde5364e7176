"""Birth times of files, from the system call `statx`, which Python's `os` does not have.

A file system may give the inode of a deleted folder to the next one. The two differ in their birth
time, which neither writes to the folder nor `touch` change.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

_AT_FDCWD: Final = -100
_STATX_INO: Final = 0x100
_STATX_BTIME: Final = 0x800
# Of `struct statx` of the kernel, the same on all machines: the mask of the filled fields, the
# inode, and the birth time in seconds and nanoseconds.
_STATX_BYTES: Final = 256
_FIELDS: Final = struct.Struct("=I28xQ40xqI")
_NANOSECONDS: Final = 1_000_000_000


def birth_time_ns(path: str, inode: int) -> int | None:
    """Return when the file with this inode was created; None if the system does not tell."""
    statx = _find_statx()
    if statx is None:
        return None
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_INO | _STATX_BTIME, found) != 0:
        return None
    mask, found_inode, seconds, nanoseconds = _FIELDS.unpack_from(found)
    if not mask & _STATX_BTIME or found_inode != inode:
        return None
    return int(seconds) * _NANOSECONDS + int(nanoseconds)


@functools.cache
def _find_statx() -> Callable[..., Any] | None:
    """Return the function of the C library; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None
