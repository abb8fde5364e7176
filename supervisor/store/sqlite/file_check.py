"""Checks of a database file for loss and damage: at start, after an unclean end, and by `doctor`.

SQLite takes an empty file for a new database and deletes the WAL beside it, ignores a damaged end
of a WAL, and reads a zeroed page only when it is needed. The notes in the lock file tell what was
there before.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from supervisor.core.errors import StoreDegraded
from supervisor.core.store_finding import StoreFinding

from .files import RESTORE_HINT, open_reader
from .lock import read_notes
from .run_notes import RunNotes

_MAGIC: Final = b"SQLite format 3\0"
_LAST_POSITION: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'records'"
_MAX_PROBLEMS: Final = 5
_STEPS_PER_CHECK: Final = 1_000
# Before this version, the check of a table cannot be interrupted: a larger file is not checked.
_INTERRUPTIBLE_VERSION: Final = (3, 41)
_MAX_BYTES: Final = 512 * 1024**2


def refuse_if_lost(path: Path) -> None:
    """Raise `StoreDegraded` if the database is empty or overwritten, or missing beside others.

    Nothing is opened: opening an empty database deletes its WAL.
    """
    if is_new(path):
        return
    size, position = _size(path), read_notes(path).position
    if not size:
        raise _lost(path, f"it is {'missing' if size is None else 'empty'}{_past(path, position)}")
    # A checkpoint that a power cut has torn may have left such a page; then the WAL has a good one.
    if position and not _has_magic(path) and not _size(_wal(path)):
        raise _lost(path, "it is damaged: its first page is not that of a database")


def is_new(path: Path) -> bool:
    """Return True if there is no file at the path, and no note or WAL says that there was one.

    An empty file is not new: a new one gets its name with its first page (`files.open_writer`).
    """
    return _size(path) is None and not (_size(_wal(path)) or read_notes(path).position)


def last_position(connection: sqlite3.Connection) -> int:
    """Return the highest position that a record has had, that of a deleted one included."""
    found = connection.execute(_LAST_POSITION).fetchone()
    return 0 if found is None else int(found[0])


def find_lost_records(path: Path, position: int, notes: RunNotes) -> tuple[StoreFinding, ...]:
    """Return the finding if the store ends before the last commit that its supervisor noted."""
    if position >= notes.position:
        return ()
    return (
        StoreFinding(
            "records-lost",
            f"{path.name} ends at position {position}, and ended at {notes.position}: "
            "its write-ahead log is missing or damaged, or the file is an older copy",
            RESTORE_HINT + ", if it has more; otherwise nothing more is lost",
        ),
    )


def quick_check(
    path: Path, *, seconds: float, is_cancelled: Callable[[], bool] = lambda: False
) -> tuple[StoreFinding, ...]:
    """Return the damage that SQLite's quick check finds, by a reader, within about `seconds`.

    Raise `TimeoutError` if the file is not checked completely.
    """
    if sqlite3.sqlite_version_info < _INTERRUPTIBLE_VERSION and (_size(path) or 0) > _MAX_BYTES:
        raise TimeoutError(f"{path.name} is too large for a check that can be interrupted")
    deadline = time.monotonic() + seconds
    try:
        with closing(open_reader(path)) as connection:
            connection.set_progress_handler(
                lambda: int(is_cancelled() or time.monotonic() > deadline), _STEPS_PER_CHECK
            )
            found = [text for (text,) in connection.execute(f"PRAGMA quick_check({_MAX_PROBLEMS})")]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise TimeoutError(f"{path.name} was not checked within {seconds:g} s") from error
        found = [str(error)]
    if found == ["ok"]:
        return ()
    what = "; ".join(found).replace("*** in database main ***\n", "")
    return (damage_finding(path, what),)


def damage_finding(path: Path, what: str) -> StoreFinding:
    """Return the finding for a damaged file."""
    return StoreFinding("store-damaged", f"{path.name} is damaged: {what}", RESTORE_HINT)


def inspect_file(path: Path, *, seconds: float) -> tuple[StoreFinding, ...]:
    """Return all findings about a file that no supervisor need have open."""
    try:
        with closing(open_reader(path)) as connection:
            lost = find_lost_records(path, last_position(connection), read_notes(path))
    except sqlite3.Error:  # the quick check says why
        lost = ()
    return (*lost, *quick_check(path, seconds=seconds))


def _lost(path: Path, what: str) -> StoreDegraded:
    files = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm", ".lock")]
    there = " ".join(file.name for file in files if file.exists())
    return StoreDegraded(
        f"the store {path.name} cannot be used: {what}",
        hint=f"{RESTORE_HINT}; to begin a new store, move these away: {there}",
        is_surely_unwritten=True,
    )


def _past(path: Path, position: int) -> str:
    """Return what the files beside an empty or missing database tell of it."""
    if position:
        return f", and had {position} records"
    return ", and had writes in its write-ahead log" if _size(_wal(path)) else ""


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _has_magic(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # opening it raises a better error
        return True
    try:
        return os.read(descriptor, len(_MAGIC)) == _MAGIC
    finally:
        os.close(descriptor)
