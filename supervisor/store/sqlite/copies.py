"""Copies of the file: before a migration, when somebody asks, and back again.

Rule 1: a copy has its name when it is whole and on the disk, and not before.
Rule 2: what is there already is never overwritten, and never lost.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from supervisor.core.errors import ConfigError

from . import schema
from .files import open_reader
from .lock import lock_path

# How long somebody who reads a store is waited for before it is put aside with its WAL.
_PATIENCE_SECONDS: Final = 1.0


def copy_before_migration(connection: sqlite3.Connection, path: Path) -> Path:
    """A copy beside it, named after the version it has; those that are there already are kept."""
    target = _unused(path.with_name(f"{path.name}.v{schema.version_of(connection)}"))
    copy(connection, target)
    return target


def backup(source: sqlite3.Connection, target: Path) -> int:
    """A backup for somebody; gives its size. Raises `ConfigError` if it cannot be there."""
    target = target.absolute()
    if not target.parent.is_dir():
        raise ConfigError(f"there is no folder {target.parent.name}", hint="make it first")
    copy(source, target)
    return target.stat().st_size


def copy(source: sqlite3.Connection, target: Path) -> None:
    """All of it, as of one moment, while others go on writing."""
    try:
        with _unfinished(target) as unfinished:
            _copy_into(source, unfinished)
            _sync(unfinished)
            os.link(unfinished, target)  # which fails if something is there
            _sync(target.parent)
    except FileExistsError as error:
        raise ConfigError(f"{target.name} is there already", hint="name a new file") from error
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(
            f"{target.name} cannot be written: {error}", hint="look at that disk, then try again"
        ) from error


@contextlib.contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """A file of nobody else's beside the target, which is gone afterwards."""
    # As mkstemp makes it: only its owner can read it.
    descriptor, name = tempfile.mkstemp(".unfinished", f"{target.name}.", target.parent)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        for ending in ("", "-journal", "-wal", "-shm"):
            Path(name + ending).unlink(missing_ok=True)


def _copy_into(source: sqlite3.Connection, target: Path) -> None:
    connection = sqlite3.connect(target, isolation_level=None)
    try:
        # In one step: whoever writes goes on in the WAL, and a copy in several steps would begin
        # anew each time that somebody has.
        source.backup(connection)
        connection.execute("PRAGMA journal_mode = DELETE")
        _forget_processes(connection)
        [(verdict,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    finally:
        connection.close()
    if verdict != "ok":
        raise sqlite3.DatabaseError(" ".join(verdict.split()))


def _forget_processes(connection: sqlite3.Connection) -> None:
    """They are those of the file that was copied, and alive: nobody else may take them for dead."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'processes'").fetchone()
    if found is not None:
        connection.execute("DELETE FROM processes")


def restore(backup_path: Path, path: Path) -> Path | None:
    """Put a backup in the place of a store that nobody has open; gives where the old one is now.

    The old one is put aside as it is, whatever is wrong with it: mending that is what this is for.
    Raises `ConfigError` if the backup is none, and `StoreTooNew`. The caller holds the lock.
    """
    if not backup_path.is_file():
        raise ConfigError(f"there is no backup {backup_path.name}", hint="name a backup's file")
    schema.refuse_unless_ours(backup_path, may_be_new=False)
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path.name} is no file", hint="name the store, or a new file")
    with _unfinished(path) as incoming:
        try:
            with contextlib.closing(open_reader(backup_path)) as source:
                _copy_into(source, incoming)
        except sqlite3.Error as error:
            raise ConfigError(
                f"the backup {backup_path.name} is damaged: {error}", hint="try another one"
            ) from error
        _sync(incoming)
        old = _put_aside(path) if path.exists() else None
        # The store that was there, or the backup: at every instant it is one of the two.
        incoming.replace(path)
        _sync(path.parent)
    return old


def _put_aside(path: Path) -> Path:
    """Give the old one another name too, with all that is in it."""
    old = _unused(path.with_name(f"{path.name}.before-restore"))
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(path, timeout=_PATIENCE_SECONDS)) as one,
        ):
            one.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that it is whole without its WAL
    os.link(path, old)
    # Only of one that is damaged, or that somebody reads, there is a WAL now; left here it would be
    # taken for the new one's.
    for ending in ("-wal", "-shm"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.replace(old.with_name(old.name + ending))
    return old


def refuse_target(path: Path) -> None:
    """Raise if something is there that was never a store of ours, damaged or not."""
    if path.exists() and path.stat().st_size and not lock_path(path).exists():
        schema.refuse_unless_ours(path, may_be_new=True)


def clear_away_unfinished(path: Path) -> None:
    """Remove what a restore that was killed has left; the caller holds the lock."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.unfinished*"):
        left.unlink(missing_ok=True)
    for old in list(path.parent.glob(f"{glob.escape(path.name)}.before-restore*")):
        if (
            path.exists() and old.exists() and old.samefile(path)
        ):  # put aside, and nothing came in its place
            _give_log_back(old, path)
            old.unlink(missing_ok=True)


def _give_log_back(old: Path, path: Path) -> None:
    """What was in its WAL went aside with it; without that, what was written last would be gone."""
    wal, own = old.with_name(f"{old.name}-wal"), path.with_name(f"{path.name}-wal")
    if wal.exists() and not own.exists():
        wal.replace(own)
        # Its index is made anew.
        old.with_name(f"{old.name}-shm").unlink(missing_ok=True)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)


def _unused(wanted: Path) -> Path:
    """That name, or one with a number behind it that nobody has."""
    number, name = 1, wanted
    while name.exists():
        number += 1
        name = wanted.with_name(f"{wanted.name}-{number}")
    return name


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
