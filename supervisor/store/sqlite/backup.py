"""Copies of the file: before a migration, as a backup, and when a backup is restored.

Rule 1: a copy gets its name once it is complete and on disk.
Rule 2: an existing file is never overwritten and never lost.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
from pathlib import Path
from typing import Final

from supervisor.core.errors import ConfigError
from supervisor.store.new_file import (
    UNFINISHED,
    NewFile,
    check_new_file,
    not_written_error,
    sync,
)

from . import schema
from .files import disk_full_error, is_disk_full, open_reader
from .lock import lock_path
from .space import make_shrinkable

# How long a restore waits for readers of the old store before it moves the file with its WAL.
_READER_WAIT_SECONDS: Final = 1.0


def copy_before_migration(connection: sqlite3.Connection, path: Path) -> Path:
    """Copy the file beside itself, named after its version; return the path of the copy.

    Raise `StoreDegraded` if the disk is full, and `ConfigError` if the copy cannot be written.
    """
    target = _unused_name(path.with_name(f"{path.name}.v{schema.version_of(connection)}"))
    try:
        copy(connection, target)
    except ConfigError as error:
        if is_disk_full(error.__cause__, target):
            raise disk_full_error(f"cannot copy {path.name} before its migration") from error
        raise
    return target


def backup(source: sqlite3.Connection, target: Path) -> int:
    """Write a backup and return its size; raise `ConfigError` if it cannot be written."""
    target = target.absolute()
    check_new_file(target)
    copy(source, target)
    return target.stat().st_size


def copy(source: sqlite3.Connection, target: Path) -> None:
    """Copy the database as of one moment, while other connections write."""
    try:
        with contextlib.closing(NewFile.create(target)) as new:
            _copy_into(source, new.draft)
            new.finish()
    except (OSError, sqlite3.Error) as error:
        raise not_written_error(target, error) from error


def _copy_into(source: sqlite3.Connection, target: Path) -> None:
    connection = sqlite3.connect(target, isolation_level=None)
    try:
        # In one step: writers continue in the WAL, and a copy in several steps would restart after
        # each write.
        source.backup(connection)
        connection.execute("PRAGMA journal_mode = DELETE")
        _forget_processes(connection)
        [(verdict,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    finally:
        connection.close()
    if verdict != "ok":
        raise sqlite3.DatabaseError(" ".join(verdict.split()))


def _forget_processes(connection: sqlite3.Connection) -> None:
    """Delete all process entries: a supervisor on the copy must not kill these processes."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'processes'").fetchone()
    if found is not None:
        connection.execute("DELETE FROM processes")


def restore(backup_path: Path, path: Path) -> Path | None:
    """Replace a store that is not open by a backup; return the path of the old store, or None.

    The old store is kept under another name, even if it is damaged. Raise `ConfigError` if the
    backup is not a store, and `StoreTooNew` if a newer version wrote it. The caller holds the lock.
    """
    if not backup_path.is_file():
        raise ConfigError(
            f"there is no backup {backup_path.name}", hint="name the file of a backup"
        )
    schema.refuse_unless_ours(backup_path, may_be_new=False)
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path.name} is not a file", hint="name the store, or a new file")
    with contextlib.closing(NewFile.create(path)) as incoming:
        try:
            with contextlib.closing(open_reader(backup_path)) as source:
                _copy_into(source, incoming.draft)
            make_shrinkable(incoming.draft)
        except sqlite3.Error as error:
            raise ConfigError(
                f"the backup {backup_path.name} is damaged: {error}", hint="try another one"
            ) from error
        sync(incoming.draft)
        old = _set_aside(path) if path.exists() else None
        # At every instant the path is either the old store or the backup.
        incoming.replace()
    return old


def _set_aside(path: Path) -> Path:
    """Link the old store to another name; its WAL is applied before, or moved with it."""
    old = _unused_name(path.with_name(f"{path.name}.before-restore"))
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(path, timeout=_READER_WAIT_SECONDS)) as one,
        ):
            one.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that it is complete without its WAL
    os.link(path, old)
    # A WAL is left only of a damaged store or one with readers; left here it would be applied to
    # the new file.
    for ending in ("-wal", "-shm"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.replace(old.with_name(old.name + ending))
    return old


def check_restore_target(path: Path) -> None:
    """Raise ConfigError if the target exists and is not a store, not even a damaged one."""
    if path.exists() and path.stat().st_size and not lock_path(path).exists():
        schema.refuse_unless_ours(path, may_be_new=True)


def remove_unfinished(path: Path) -> None:
    """Remove the files of a restore that was killed; the caller holds the lock."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*{UNFINISHED}*"):
        left.unlink(missing_ok=True)
    for old in list(path.parent.glob(f"{glob.escape(path.name)}.before-restore*")):
        # Linked aside, but not replaced yet.
        if path.exists() and old.exists() and old.samefile(path):
            _return_wal(old, path)
            old.unlink(missing_ok=True)


def _return_wal(old: Path, path: Path) -> None:
    """Move the WAL back to the store, because it has the latest commits."""
    wal, own = old.with_name(f"{old.name}-wal"), path.with_name(f"{path.name}-wal")
    if wal.exists() and not own.exists():
        wal.replace(own)
        # SQLite rebuilds the index of the WAL.
        old.with_name(f"{old.name}-shm").unlink(missing_ok=True)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)


def _unused_name(wanted: Path) -> Path:
    """Return the path, with the first free number added if it exists."""
    number, name = 1, wanted
    while name.exists():
        number += 1
        name = wanted.with_name(f"{wanted.name}-{number}")
    return name
