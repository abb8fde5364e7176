"""The daemon's folder of backups.

Rule 1: a caller chooses at most a name, never a path: every file of this interface lies in the
        folder, which has mode 700.
Rule 2: the number of backups is bounded; the oldest is not deleted for a new one.
Rule 3: the methods of the folder block, so they run in a thread. They raise `FileNotFoundError` if
        there is no backup with the name.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from supervisor.configuration.private_files import OTHERS_ANY, check_owner_and_mode
from supervisor.core.errors import ConfigError, short_repr
from supervisor.store.new_file import SQLITE_ENDINGS, UNFINISHED

from .reports import BackupReport

MAX_BACKUPS: Final = 100
NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_NAME: Final = re.compile(NAME_PATTERN)
_HINT: Final = (
    "give a plain file name such as nightly.db, or none: the daemon writes into its own folder;"
    " GET /v1/backups/{name} returns the file, `understudy backup PATH` copies it"
)


def check_backup_name(name: str) -> None:
    """Raise `ConfigError` unless the name is a plain one that SQLite gives no meaning."""
    if not _is_backup_name(name):
        raise ConfigError(f"path is {short_repr(name)}", hint=_HINT)


def _is_backup_name(name: str) -> bool:
    is_plain = _NAME.fullmatch(name) is not None
    return is_plain and not name.endswith((*SQLITE_ENDINGS, UNFINISHED))


@attrs.frozen
class BackupFolder:
    """A folder of backups; it is created with the first of them."""

    path: Path

    def new_path(self, name: str | None) -> Path:
        """Return the path of a new backup, with a generated name if none is given.

        Raise `ConfigError` if the folder is full, or accessible to other users.
        """
        self._ensure()
        if (count := len(self.list())) >= MAX_BACKUPS:
            raise ConfigError(
                f"the daemon keeps {count} of {MAX_BACKUPS} backups",
                hint="delete some: GET /v1/backups lists them, DELETE /v1/backups/{name} deletes",
            )
        return self.path / (name or _generated_name())

    def list(self) -> list[BackupReport]:
        """Return the backups, the oldest first."""
        if not self.path.is_dir():
            return []
        found = (self._find(one.name) for one in self.path.iterdir())
        reports = [report for report in found if report is not None]
        return sorted(reports, key=lambda report: (report.created_at, report.name))

    def open(self, name: str) -> BinaryIO:
        """Open a backup for reading."""
        self.report(name)
        return os.fdopen(os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW), "rb")

    def delete(self, name: str) -> None:
        """Delete a backup."""
        self.report(name)
        (self.path / name).unlink()

    def remove_unfinished(self) -> None:
        """Remove what a killed daemon has left of a backup; no other daemon may use the folder."""
        if self.path.is_dir():
            for left in self.path.glob(f"*{UNFINISHED}*"):
                left.unlink(missing_ok=True)

    def _ensure(self) -> None:
        try:
            self.path.mkdir(mode=stat.S_IRWXU, exist_ok=True)
            found = self.path.stat()
        except OSError as error:
            raise ConfigError(
                f"cannot create the folder {self.path}: {error.strerror}",
                hint="check the state folder of the daemon",
            ) from error
        check_owner_and_mode(self.path, found, OTHERS_ANY, expected_mode="700")

    def report(self, name: str) -> BackupReport:
        """Return the path, size and age of a backup."""
        found = self._find(name)
        if found is None:
            raise FileNotFoundError(name)
        return found

    def _find(self, name: str) -> BackupReport | None:
        """Return the report of a backup; None if it is not one."""
        if not _is_backup_name(name):
            return None
        try:
            found = (self.path / name).lstat()
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return BackupReport(str(self.path / name), found.st_size, name, found.st_mtime)


def _generated_name() -> str:
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"backup-{at}-{secrets.token_hex(4)}.db"
