"""Copies of the file: before a migration, when somebody asks, and back again."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from supervisor.core.errors import ConfigError

from . import schema
from .files import make_private, open_reader


def copy_before_migration(connection: sqlite3.Connection, path: Path) -> Path:
    """A copy beside it, named after the version it has; one that is there already is kept."""
    target = path.with_name(f"{path.name}.v{schema.version_of(connection)}")
    if not target.exists():
        copy(connection, target)
    return target


def copy(source: sqlite3.Connection, target: Path) -> None:
    """All of it, as of one moment, while others go on writing; there is no half a copy.

    It gets its name when it is whole and on the disk.
    """
    unfinished = target.with_name(f"{target.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    make_private(unfinished)
    connection = sqlite3.connect(unfinished, isolation_level=None)
    try:
        # In one step: whoever writes goes on in the WAL, and a copy in several steps would begin
        # anew each time that somebody has.
        source.backup(connection)
        connection.execute("PRAGMA journal_mode = DELETE")
        [(verdict,)] = connection.execute("PRAGMA quick_check").fetchall()
    finally:
        connection.close()
    if verdict != "ok":
        unfinished.unlink()
        raise ConfigError(f"the copy is damaged: {verdict}", hint="repair the store first")
    _sync(unfinished)
    unfinished.replace(target)
    _sync(target.parent)


def backup(source: sqlite3.Connection, target: Path) -> int:
    """A backup for somebody; gives its size. What is there already is not overwritten."""
    if target.exists():
        raise ConfigError(f"{target.name} is there already", hint="name a new file")
    if not target.parent.is_dir():
        raise ConfigError(f"there is no folder {target.parent}", hint="make it first")
    copy(source, target)
    return target.stat().st_size


def restore(backup_path: Path, path: Path) -> Path | None:
    """Put a backup in the place of a store that nobody has open; gives where the old one is now.

    Raises `ConfigError` if it is no store of ours, and `StoreTooNew`. The caller holds the lock.
    """
    if not backup_path.is_file():
        raise ConfigError(f"there is no backup {backup_path.name}", hint="name a backup's file")
    source = open_reader(backup_path)
    try:
        schema.refuse_foreign_file(source, backup_path)
        incoming = path.with_name(f"{path.name}.incoming")
        copy(source, incoming)
    finally:
        source.close()
    old: Path | None = None
    if path.exists():
        old = _unused(path)
        # With its WAL in it, so that it is one file, and whole.
        connection = sqlite3.connect(path)
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            connection.close()
        os.link(path, old)  # so that there is a store at every instant, the old one or the new
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    incoming.replace(path)
    _sync(path.parent)
    return old


def _unused(path: Path) -> Path:
    number = 1
    while (candidate := path.with_name(f"{path.name}.before-restore-{number}")).exists():
        number += 1
    return candidate


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
