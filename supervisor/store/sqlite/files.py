"""Connections to the file: one writer, some readers; meaning of errors; identity of the file.

Rule 1: exactly one connection writes or checkpoints. SQLite before 3.51.3 can corrupt a WAL that
        two connections reset at once, and readers do not need to.
Rule 2: only its owner can read the file.
Rule 3: a file that is deleted or replaced while it is open accepts writes, and all of them are lost
        when it is closed. SQLite does not notice, so the writer checks before and after each write.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

from supervisor.core.errors import ConfigError, StoreDegraded, short_repr
from supervisor.store.new_file import NewFile, refuse_sqlite_name, sync

from .checkpoints import MAX_PAGES
from .reply_scope import OLD_OWNER_SQL, OLD_SCOPE_SQL, OLD_STALE_INDEX_SCOPE

# How long SQLite waits for the lock of another connection; and how long after it was found locked,
# because stops and interrupts must not wait behind that.
_BUSY_MS: Final = 1_000

_SHORT_BUSY_MS: Final = 20

_OWNER_ONLY: Final = 0o600
# The last versions of files without the table `unfinished`, and without the column `kept.owner`.
_LAST_VERSION_WITHOUT_UNFINISHED: Final = 3
_LAST_VERSION_WITHOUT_OWNER: Final = 5

# What follows a lack of space or memory; a part of the hint.
WRITE_IS_RETRIED: Final = "; the store retries by itself"
TRY_AGAIN: Final = ", and try again"
_LACKS: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM)

RESTORE_HINT: Final = "restore a backup: `understudy restore BACKUP`, or supervisor.restore()"

# Problems of the disk or the file, which may pass: by the primary result code of SQLite.
_DEGRADED_PROBLEMS: Final = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space"),
    sqlite3.SQLITE_IOERR: ("the disk fails", "check the disk and the system log"),
    sqlite3.SQLITE_READONLY: ("the file is read-only", "make it and its directory writable"),
    sqlite3.SQLITE_BUSY: ("another program has it locked", "close that program's transaction"),
    sqlite3.SQLITE_LOCKED: ("another program has it locked", "close that program's transaction"),
    sqlite3.SQLITE_CANTOPEN: (
        "it, or a file that SQLite needs beside it, cannot be opened",
        "check that its directory exists and is writable, or read a copy of its files elsewhere",
    ),
    sqlite3.SQLITE_PERM: ("permission denied", "check its owner and mode"),
    sqlite3.SQLITE_NOMEM: ("there is no memory left", "free some memory"),
    sqlite3.SQLITE_PROTOCOL: ("its lock is contended", "close other programs that have it open"),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", RESTORE_HINT),
    sqlite3.SQLITE_NOTADB: ("it is not a database", RESTORE_HINT),
}
# Codes after which nothing of the transaction is in the file. After a failed fsync a part may be,
# and may be found after a power loss.
_NOT_WRITTEN_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }
)
# The commit is the last page written, so if writing a page failed (for example in a file that must
# not grow), nothing is committed.
_NOT_WRITTEN_EXTENDED_CODES: Final = frozenset({sqlite3.SQLITE_IOERR_WRITE})


def degraded_error(
    error: sqlite3.Error, path: Path, *, then: str = TRY_AGAIN
) -> StoreDegraded | None:
    """Return the error for a problem of the file or disk; None if the statement is at fault.

    `then` is added to the hint if space or memory is missing.
    """
    code = getattr(error, "sqlite_errorcode", None)
    lacks_room = is_disk_full(error, path)
    primary = sqlite3.SQLITE_FULL if lacks_room else code & 0xFF if isinstance(code, int) else None
    known = None if primary is None else _DEGRADED_PROBLEMS.get(primary)
    if known is None and not isinstance(error, sqlite3.OperationalError):
        return None
    # Other operational errors (a missing table) mean that another program changed the file.
    problem, hint = known or (str(error), "inspect the file, or restore a backup")
    is_surely_unwritten = isinstance(code, int) and (
        code & 0xFF in _NOT_WRITTEN_CODES or code in _NOT_WRITTEN_EXTENDED_CODES
    )
    return StoreDegraded(
        f"the store {path.name} cannot be used: {problem}",
        hint=hint + then if primary in _LACKS else hint,
        is_surely_unwritten=is_surely_unwritten,
        is_disk_full=lacks_room,
    )


def is_damage(error: sqlite3.Error) -> bool:
    """Return True if SQLite has found that the file is damaged."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_disk_full(error: BaseException | None, path: Path) -> bool:
    """Return True if the error of SQLite or of the system says that a file at `path` had no room.

    SQLite does not say why it could not create the WAL, or its index, or make the index larger.
    """
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    code = getattr(error, "sqlite_errorcode", None)
    if not isinstance(code, int):
        return False
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:
        return _has_no_room(path.parent)
    # A byte at the new end is written to the index: only a full disk refuses that as a rule.
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE


def _has_no_room(folder: Path) -> bool:
    """Return True if the file system has no free block, or a fixed number of files and no more."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail == 0 or (found.f_files > 0 and found.f_favail == 0)


def disk_full_error(what: str) -> StoreDegraded:
    """Return the error that begins with `what` and says that the disk is full."""
    problem, hint = _DEGRADED_PROBLEMS[sqlite3.SQLITE_FULL]
    return StoreDegraded(
        f"{what}: {problem}", hint=hint + TRY_AGAIN, is_surely_unwritten=True, is_disk_full=True
    )


def resolve_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a store, without symbolic links.

    The path is absolute because the working directory may change, and has no links because SQLite
    names the WAL and the locks by the path. Raise `ConfigError` if no store can have that path.
    """
    try:
        whole = Path(os.fsdecode(path)).expanduser().resolve()
        # To SQLite, two slashes in front are the name of a host.
        whole = Path("/" + str(whole).lstrip("/"))
        # Opening a pipe would block for ever, and a device cannot hold a database.
        if (whole.exists() and not whole.is_file()) or not whole.parent.is_dir():
            raise ConfigError(
                f"{whole.name or whole} is not a file and cannot be created",
                hint="name a file in an existing directory",
            )
        os.fsencode(whole)
        refuse_sqlite_name(whole)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{short_repr(os.fspath(path))} is not a file name",
            hint="name a file in an existing directory",
        ) from error
    return whole


def read_only_problem(path: Path) -> StoreDegraded | None:
    """Return the error for an existing store that cannot be written; None if it is writable."""
    if not path.is_file():
        return None
    beside = (path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-shm", ".lock"))
    has_room = _may_write(path.parent) or all(_may_write(one) for one in beside)
    if _may_write(path) and has_room:
        return None
    problem, hint = _DEGRADED_PROBLEMS[sqlite3.SQLITE_READONLY]
    return StoreDegraded(
        f"the store {path.name} cannot be used: {problem}",
        hint=f"{hint}, then open it again (restart the daemon): it stays read-only until then",
    )


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK)


def open_writer(path: Path) -> sqlite3.Connection:
    """Return the writing connection; create the file if it does not exist."""
    if not path.exists():
        _create(path)
    _make_wal_writable(path)
    connection = _connect(path, mode="rw")
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        # Acknowledged means on disk: anything less loses commits when power is lost.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {MAX_PAGES}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA foreign_keys = OFF")
        # Deleted data is overwritten, whatever the build of SQLite has as its default.
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in a transaction that takes the write lock first, so that reads are current."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            # If this fails too, the next BEGIN raises.
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def set_busy_timeout(connection: sqlite3.Connection, *, patient: bool) -> None:
    """Set how long to wait for the lock of another connection."""
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS if patient else _SHORT_BUSY_MS}")


def _make_wal_writable(path: Path) -> None:
    """Make the WAL and its index writable if the file is writable.

    SQLite creates both with the mode of the file, so they stay read-only after the file is made
    writable again.
    """
    for ending in ("-wal", "-shm"):
        beside = path.with_name(f"{path.name}{ending}")
        if beside.exists() and _may_write(path) and not _may_write(beside):
            with contextlib.suppress(OSError):  # then SQLite raises
                beside.chmod(_OWNER_ONLY)


def open_reader(path: Path) -> sqlite3.Connection:
    """Return a connection that can neither write nor checkpoint."""
    # To read, SQLite needs a WAL beside the file, and creates one. Where it cannot, or where the
    # WAL would be read-only, the file is opened as immutable. Not if a WAL exists, even an empty
    # one: then a writer may have the file open.
    alone = read_only_problem(path) is not None and not path.with_name(f"{path.name}-wal").exists()
    connection = _connect(path, mode="ro&immutable=1" if alone else "ro")
    try:
        _add_missing_tables(connection)
        connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _add_missing_tables(connection: sqlite3.Connection) -> None:
    """Create temporary tables and views that an older file lacks, so that it can be read unchanged.

    A temporary name hides the same name in the file.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not 0 < version <= _LAST_VERSION_WITHOUT_OWNER:
        return
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(
        f"""
        CREATE TEMP VIEW kept AS
        SELECT {OLD_SCOPE_SQL} AS scope, {OLD_OWNER_SQL} AS owner, key, session_id, fingerprint,
            answer
        FROM main.kept WHERE scope <> '{OLD_STALE_INDEX_SCOPE}'
        """  # noqa: S608 - constants of ours
    )
    if version <= _LAST_VERSION_WITHOUT_UNFINISHED:
        connection.execute("CREATE TEMP TABLE unfinished (session_id, arrives_from)")


def _connect(path: Path, *, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        timeout=_BUSY_MS / 1_000,
        isolation_level=None,  # no implicit transactions
        check_same_thread=False,  # used by one thread at a time, not always the same one
    )


def _create(path: Path) -> None:
    """Create the file with mode 0600; SQLite gives its WAL and index the same mode.

    It gets its name when its first page is on disk, so a kill never leaves an empty file: an empty
    file is a store that was lost. The caller holds the lock.
    """
    with closing(NewFile.create(path)) as new:
        with closing(_connect(new.draft, mode="rw")) as connection:
            # Possible only while the file has no page: see `space`.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        sync(new.draft)
        new.replace()


DeviceAndInode: TypeAlias = tuple[int, int]


class FileIdentity:
    """Device and inode of the file and its WAL when they were opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._opened_file = device_and_inode(path)
        # None until the first write creates the WAL; it exists until the file is closed.
        self._opened_wal: DeviceAndInode | None = None

    def check(self, *, is_surely_unwritten: bool) -> None:
        """Raise `StoreDegraded` with `is_surely_unwritten` if a file was deleted or replaced."""
        wal = device_and_inode(self._wal)
        if self._opened_wal is None:
            self._opened_wal = wal
        if device_and_inode(self._path) != self._opened_file:
            raise self._error(self._path, is_surely_unwritten=is_surely_unwritten)
        if wal != self._opened_wal:
            raise self._error(self._wal, is_surely_unwritten=is_surely_unwritten)

    def _error(self, path: Path, *, is_surely_unwritten: bool) -> StoreDegraded:
        what = "another file is in its place" if path.exists() else "it was deleted or moved"
        return StoreDegraded(
            f"the store {self._path.name} cannot be used: {what} ({path.name}) while it was open",
            hint="put it back where it was, or restore a backup and start again",
            is_surely_unwritten=is_surely_unwritten,
        )


def device_and_inode(file: Path | int) -> DeviceAndInode | None:
    """Return the identity of a path or descriptor; None if the file is missing."""
    try:
        found = os.stat(file)  # noqa: PTH116 - called three times per commit, and faster
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_hard_links(path: Path) -> None:
    """Raise ConfigError if the file has hard links, because each name has its own lock and WAL."""
    if path.stat().st_nlink > 1:
        raise ConfigError(
            f"{path.name} has a hard link",
            hint="delete the other link, or make a copy instead with sup.backup()",
        )
