"""Files that get their name once they are complete and on disk.

Rule 1: a file is written under another name beside its own, readable by its owner only.
Rule 2: an existing file is not overwritten.
Rule 3: no file gets a name that SQLite gives a meaning: SQLite would apply `x-wal` to a database
        `x`, and delete `x-journal`.

These functions block, so they run in a thread. This module imports no SQL library: the client
copies backups with it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final, Self

from supervisor.core.errors import ConfigError

SQLITE_ENDINGS: Final = ("-journal", "-wal", "-shm")
UNFINISHED: Final = ".unfinished"


def refuse_sqlite_name(path: Path) -> None:
    """Raise `ConfigError` if SQLite would take the file for a part of another database."""
    # The name itself is harmless: no database has a name without letters.
    if path.name not in SQLITE_ENDINGS and path.name.endswith(SQLITE_ENDINGS):
        raise ConfigError(
            f"{path.name} has a name that SQLite gives a meaning",
            hint=f"choose a name that does not end in {', '.join(SQLITE_ENDINGS)}",
        )


def check_new_file(target: Path) -> None:
    """Raise `ConfigError` if no new file can be created at the path."""
    refuse_sqlite_name(target)
    if not target.parent.is_dir():
        raise ConfigError(f"there is no directory {target.parent}", hint="create it first")
    if os.path.lexists(target):
        raise _exists_error(target)


class NewFile:
    """A file under construction: write to `draft`, then `finish`; `close` deletes the draft."""

    def __init__(self, target: Path, draft: Path) -> None:
        self._target = target
        self.draft = draft

    @classmethod
    def create(cls, target: Path) -> Self:
        """Create an empty draft beside the target; raise `OSError`."""
        # mkstemp creates it with mode 0600.
        descriptor, name = tempfile.mkstemp(UNFINISHED, f"{target.name}.", target.parent)
        os.close(descriptor)
        return cls(target, Path(name))

    def finish(self) -> None:
        """Give the draft the name of the target, durably; raise `OSError` or `ConfigError`."""
        sync(self.draft)
        try:
            os.link(self.draft, self._target)
        except FileExistsError:
            raise _exists_error(self._target) from None
        sync(self._target.parent)

    def replace(self) -> None:
        """Put the draft in the place of the target, durably; raise `OSError`."""
        self.draft.replace(self._target)
        sync(self._target.parent)

    def close(self) -> None:
        """Delete the draft, and files that SQLite has left beside it."""
        for ending in ("", *SQLITE_ENDINGS):
            Path(f"{self.draft}{ending}").unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def not_written_error(target: Path, error: Exception) -> ConfigError:
    """Return the error for a file that could not be written."""
    return ConfigError(
        f"{target.name} cannot be written: {error}", hint="check that disk, then try again"
    )


def _exists_error(target: Path) -> ConfigError:
    return ConfigError(f"{target.name} exists already", hint="name a new file")
