"""Files of the workspace, read and written so that no link and no strange file leads elsewhere.

Rule 1: a file is reached from the workspace's own descriptor, one name after the other, and no name
        may be a link. What was resolved has none, so one that is there was put there since.
Rule 2: only ordinary files are opened; a pipe without a writer would never let go of us.
Rule 3: these block, so they run in a thread. Whatever they raise is `OSError`, `TooLarge` or
        `NotOrdinary`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final

from .ground import Place

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting for anybody on the other side, should it be a pipe.
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE_BYTES: Final = 65536


class TooLarge(Exception):
    """There is more than may be read."""


class NotOrdinary(Exception):
    """It is a folder, a pipe, a device or a link, and no file."""


def read_lines(
    place: Place, *, first: int, count: int | None, max_bytes: int, max_skipped_bytes: int
) -> bytes:
    """So many lines from that one on (counted from 1), as they are in the file; all without count.

    Raises `TooLarge` if they have more than `max_bytes`, or lie behind more than
    `max_skipped_bytes` of other lines.
    """
    with _folder_of(place) as (folder, name):
        # Looked at before it is opened too, for to some devices that is something.
        _refuse_unless_ordinary(os.stat(name, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
    with os.fdopen(descriptor, "rb", buffering=_PIECE_BYTES) as file:
        _refuse_unless_ordinary(os.fstat(descriptor))
        _skip_lines(file, first - 1, max_skipped_bytes)
        if count is None:
            found = file.read(max_bytes + 1)
        else:
            found = b"".join(_lines(file, count, max_bytes))
    if len(found) > max_bytes:
        raise TooLarge
    return found


def _skip_lines(file: BinaryIO, count: int, max_bytes: int) -> None:
    left = max_bytes
    while count > 0:
        line = file.readline(min(left, _PIECE_BYTES) + 1)
        if not line:
            return
        left -= len(line)
        if left < 0:
            raise TooLarge
        count -= line.endswith(b"\n")


def _lines(file: BinaryIO, count: int, max_bytes: int) -> Iterator[bytes]:
    left = max_bytes
    while count > 0 and left >= 0:
        line = file.readline(left + 1)
        if not line:
            return
        left -= len(line)
        count -= 1
        yield line


def write(place: Place, data: bytes) -> None:
    """Make the file have this in it, and nothing else; folders that are not there are made.

    It is replaced at once where that changes nothing else about it. One that has another owner, or
    more than one name, or lies in a folder where we may make nothing, is written over.
    """
    with _folder_of(place, make=True) as (folder, name):
        before = _look(folder, name)
        if before is not None:
            _refuse_unless_ordinary(before)
            if not os.access(name, os.W_OK, dir_fd=folder):
                raise PermissionError
        if before is None or (before.st_nlink == 1 and before.st_uid == os.geteuid()):
            with contextlib.suppress(PermissionError):
                _replace(folder, name, data, before)
                return
        _write_over(folder, name, data)


def _replace(folder: int, name: str, data: bytes, before: os.stat_result | None) -> None:
    draft = f".understudy-{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(draft, dir_fd=folder)
        raise


def _write_over(folder: int, name: str, data: bytes) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | _FILE, 0o666, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        _refuse_unless_ordinary(os.fstat(descriptor))
        os.ftruncate(descriptor, 0)
        file.write(data)


def _look(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _refuse_unless_ordinary(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotOrdinary


@contextlib.contextmanager
def _folder_of(place: Place, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that it lies in, open, and its name in there."""
    if not place.parts:
        raise NotOrdinary
    folder = os.open(place.root, _FOLDER)
    try:
        if place.pin is not None and not place.pin.is_still(os.fstat(folder)):
            raise NotOrdinary
        for name in place.parts[:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            inner = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder, place.parts[-1]
    finally:
        os.close(folder)
