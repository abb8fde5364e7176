"""Where the file is: whether what is open is still what others find under its name.

A file that is deleted or replaced while it is open can be written to as before, and all of it is
gone when it is closed. SQLite does not notice; so whoever writes looks, before and after.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from supervisor.core.errors import ConfigError, StoreDegraded

Identity: TypeAlias = tuple[int, int]


class Place:
    """The file and its WAL, as they were when they were opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._file_was = identity(path)
        # None until it was there: the first write makes it, and it stays until the file is closed.
        self._wal_was: Identity | None = None

    def check(self, *, is_certain: bool) -> None:
        """Raise `StoreDegraded` if they are not there any more; `is_certain` as it says there."""
        wal = identity(self._wal)
        if self._wal_was is None:
            self._wal_was = wal
        if identity(self._path) != self._file_was:
            raise self._trouble(self._path, is_certain=is_certain)
        if wal != self._wal_was:
            raise self._trouble(self._wal, is_certain=is_certain)

    def _trouble(self, path: Path, *, is_certain: bool) -> StoreDegraded:
        what = "another file is in its place" if path.exists() else "it was deleted or moved"
        return StoreDegraded(
            f"the store {self._path.name} cannot be used: {what} ({path.name}) while it was open",
            hint="put it back where it was, or restore a backup and start again",
            is_certain=is_certain,
        )


def identity(file: Path | int) -> Identity | None:
    """Which file that is, by its name or as it is open; None if there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116 - asked thrice for each commit, and this is quicker
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_other_names(path: Path) -> None:
    """Raise if it has another name: locks and WAL go by the name, and each name has its own."""
    if path.stat().st_nlink > 1:
        raise ConfigError(
            f"{path.name} has another name too, by a hard link",
            hint="delete the other name, or make a copy instead: sup.backup() does",
        )
