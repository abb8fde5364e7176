"""Connections to the file: one that writes, some that read, and what their errors mean.

Rule 1: one connection ever writes or checkpoints. SQLite before 3.51.3 can corrupt a WAL that two
        of them reset at once, and the others need not.
Rule 2: nobody but its owner can read what is in the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from supervisor.core.errors import ConfigError, StoreDegraded, shown

# How long SQLite itself waits for somebody else's lock before it says so; and how long while it is
# known that somebody has it, for brakes must not wait behind that.
_BUSY_MS: Final = 1_000
_STILL_BUSY_MS: Final = 20
# Pages in the WAL before they go into the file. Each checkpoint costs two more fsyncs in the way of
# a commit, so it comes rarely; 4,000 pages are 16 MB.
_CHECKPOINT_PAGES: Final = 4_000
_OWNER_ONLY: Final = 0o600
# The last version of files that have no such table.
_WITHOUT_UNFINISHED: Final = 3

# What a write may meet that is nobody's mistake and may pass: by the first byte of SQLite's code.
_TROUBLES: Final = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space; it goes on by itself"),
    sqlite3.SQLITE_IOERR: ("the disk fails", "look at the disk and the system's log"),
    sqlite3.SQLITE_READONLY: ("the file is read-only", "make it and its folder writable"),
    sqlite3.SQLITE_BUSY: ("another program has it locked", "close that program's transaction"),
    sqlite3.SQLITE_LOCKED: ("another program has it locked", "close that program's transaction"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "look whether the folder is still there"),
    sqlite3.SQLITE_PERM: ("it may not be opened", "look at its owner and mode"),
    sqlite3.SQLITE_NOMEM: ("there is no memory left", "free some memory; it goes on by itself"),
    sqlite3.SQLITE_PROTOCOL: ("its lock is contended", "close other programs that have it open"),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", "restore a backup, supervisor.restore() does it"),
    sqlite3.SQLITE_NOTADB: ("it is no database", "restore a backup, supervisor.restore() does it"),
}
# Of these, those after which nothing of a transaction is in the file. After a failed fsync it may
# be, and come back when the power goes.
_CERTAIN: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    }
)
# And of those that are not, this one: a commit is the last page that is written, so where a page
# could not be (a file that may not grow any more, say) there is none.
_CERTAIN_IN_ALL: Final = frozenset({sqlite3.SQLITE_IOERR_WRITE})


def trouble_of(error: sqlite3.Error, path: Path) -> StoreDegraded | None:
    """What is wrong with the file, if it is that and not what was asked of it."""
    code = getattr(error, "sqlite_errorcode", None)
    known = _TROUBLES.get(code & 0xFF) if isinstance(code, int) else None
    if known is None and not isinstance(error, sqlite3.OperationalError):
        return None
    # Whatever else SQLite cannot do (a table that is gone) is somebody's hand in the file.
    problem, hint = known or (str(error), "look at the file, or restore a backup")
    is_certain = isinstance(code, int) and (code & 0xFF in _CERTAIN or code in _CERTAIN_IN_ALL)
    return StoreDegraded(
        f"the store {path.name} cannot be used: {problem}", hint=hint, is_certain=is_certain
    )


def whole_path(path: str | os.PathLike[str]) -> Path:
    """The file itself: absolute, for folders are changed; without links, for they are other names.

    Raises `ConfigError` if no file can be there.
    """
    try:
        whole = Path(os.fsdecode(path)).expanduser().resolve()
        # Two slashes in front would mean a machine to SQLite.
        whole = Path("/" + str(whole).lstrip("/"))
        # A pipe would be waited for, for ever; and a device is no place for anything.
        if (whole.exists() and not whole.is_file()) or not whole.parent.is_dir():
            raise ConfigError(
                f"{whole.name or whole} is no file that can be made", hint="name a file in a folder"
            )
        os.fsencode(whole)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{shown(os.fspath(path))} is no file's name", hint="name a file in a folder"
        ) from error
    return whole


def why_only_read(path: Path) -> StoreDegraded | None:
    """Why nothing can be written to a store that is there; None if it seems that it can be."""
    if not path.is_file():
        return None
    beside = (path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-shm", ".lock"))
    has_room = _may_write(path.parent) or all(_may_write(one) for one in beside)
    if _may_write(path) and has_room:
        return None
    problem, hint = _TROUBLES[sqlite3.SQLITE_READONLY]
    return StoreDegraded(f"the store {path.name} cannot be used: {problem}", hint=hint)


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK)


def open_writer(path: Path) -> sqlite3.Connection:
    """The connection that writes, made with the file if there is none."""
    make_private(path)
    _let_log_be_written(path)
    connection = _connect(path, mode="rwc")
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        # What is acknowledged is on the disk: anything less loses it when the power goes.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA foreign_keys = OFF")
        # What is deleted is overwritten, wherever SQLite was built.
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing; the lock is taken at once, so that nothing read in it is old."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            # If this fails too, the next BEGIN says so.
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def be_patient(connection: sqlite3.Connection, *, patient: bool) -> None:
    """Say how long to wait for somebody else's lock."""
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS if patient else _STILL_BUSY_MS}")


def _let_log_be_written(path: Path) -> None:
    """Have the WAL and its index writable if the file is.

    SQLite makes them with the mode of the file, so they stay read-only after it no longer is.
    """
    for ending in ("-wal", "-shm"):
        beside = path.with_name(f"{path.name}{ending}")
        if beside.exists() and _may_write(path) and not _may_write(beside):
            with contextlib.suppress(OSError):  # then SQLite says what is wrong
                beside.chmod(_OWNER_ONLY)


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, nor move what others wrote."""
    # To read, SQLite wants a WAL beside the file, and makes one. Where it cannot, or where it would
    # be one that nobody can write to, the file is all there is; unless its own WAL is there, even
    # an empty one: then somebody who can write may have it open.
    alone = why_only_read(path) is not None and not path.with_name(f"{path.name}-wal").exists()
    connection = _connect(path, mode="ro&immutable=1" if alone else "ro")
    try:
        _complete(connection)
        connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _complete(connection: sqlite3.Connection) -> None:
    """Have what every file is asked for, in one that nobody has brought up to date."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if 0 < version <= _WITHOUT_UNFINISHED:
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("CREATE TEMP TABLE unfinished (session_id, arrives_from)")


def _connect(path: Path, *, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        timeout=_BUSY_MS / 1_000,
        isolation_level=None,  # transactions begin and end where we say so
        check_same_thread=False,  # one at a time, but not always the same
    )


def make_private(path: Path) -> None:
    """Have the file there before SQLite makes it as readable as others; WAL and shm follow it."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNER_ONLY))
