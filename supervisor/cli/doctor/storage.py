"""Checks of folders, files and disk space."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from supervisor.cli.text_format import format_size
from supervisor.configuration import DaemonSettings
from supervisor.core.errors import SupervisorError

from .daemon_check import check_damaged_sessions, check_store_finding
from .findings import Finding, error, ok, warning

_OTHER_USERS_MODE: Final = stat.S_IRWXG | stat.S_IRWXO

_OTHER_FOLDERS: Final = "set other folders in daemon.state_folder and daemon.socket"

LOW_DISK_BYTES: Final = 1024**3

FULL_DISK_BYTES: Final = 64 * 1024**2

STUCK_BYTES: Final = 64 * 1024**2

_CHECK_SECONDS: Final = 60.0


def check_storage(settings: DaemonSettings, *, store: Path | None = None) -> Iterator[Finding]:
    """Check the daemon's folders and files, and the given store."""
    state, socket = Path(settings.state_folder), Path(settings.socket)
    folders = dict.fromkeys((state, socket.parent))
    files = dict.fromkeys((Path(settings.database), Path(settings.token), *_store_files(store)))
    found = [
        *(finding for folder in folders for finding in check_folder(folder)),
        *(finding for file in files for finding in check_file(file)),
    ]
    yield from found
    if not found:
        yield ok("permissions", f"only you can access {state}")
    yield from check_disk(state if store is None else store)


def check_folder(folder: Path) -> Iterator[Finding]:
    """Check that a folder is private and writable, or can be created when it is needed."""
    there = _stat(folder)
    if there is None:
        nearest = next((one for one in folder.parents if one.exists()), Path("/"))
        if not os.access(nearest, os.W_OK | os.X_OK):
            yield _unwritable(f"{folder} cannot be created: you cannot write to {nearest}")
        return
    # A folder such as /tmp: its mode and owner must not be changed.
    is_shared = there.st_mode & stat.S_ISVTX
    if not stat.S_ISDIR(there.st_mode):
        yield error(
            "permissions", "no-folder", f"{folder} is not a directory", "move that file away"
        )
    elif there.st_uid != os.geteuid():
        yield error(
            "permissions",
            "foreign-folder",
            f"{folder} belongs to user {there.st_uid}",
            _OTHER_FOLDERS if is_shared else f"change its owner, or {_OTHER_FOLDERS}",
        )
    elif there.st_mode & _OTHER_USERS_MODE:
        mode = stat.S_IMODE(there.st_mode)
        yield warning(
            "permissions",
            "open-folder",
            f"other users can enter {folder} ({mode:o})",
            _OTHER_FOLDERS if is_shared else f"`chmod 700 {folder}`",
        )
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield _unwritable(f"you cannot write to {folder}")


def _unwritable(what: str) -> Finding:
    return error(
        "permissions",
        "unwritable-folder",
        what,
        f"change its mode, or {_OTHER_FOLDERS}",
    )


def check_file(file: Path) -> Iterator[Finding]:
    """Check that a file, if it exists, is private."""
    there = _stat(file)
    if there is None:
        return
    if there.st_uid != os.geteuid():
        yield error(
            "permissions",
            "foreign-file",
            f"{file} belongs to user {there.st_uid}",
            f"`chown {os.geteuid()} {file}`, or use another file",
        )
    elif there.st_mode & _OTHER_USERS_MODE:
        mode = stat.S_IMODE(there.st_mode)
        yield error(
            "permissions",
            "open-file",
            f"other users can read {file} ({mode:o})",
            f"`chmod 600 {file}`",
        )


def check_disk(place: Path, usage: Callable[[Path], Any] = shutil.disk_usage) -> Iterator[Finding]:
    """Check the free space where the store is."""
    folder = next((one for one in (place, *place.parents) if one.is_dir()), Path("/"))
    free = usage(folder).free
    said = f"{format_size(free)} free at {place}"
    if free < FULL_DISK_BYTES:
        yield error("disk", "disk-full", said, "free some space: a full disk stops all new work")
    elif free < LOW_DISK_BYTES:
        yield warning(
            "disk", "disk-low", said, "free some space, or `understudy cleanup --older-than 30d`"
        )
    else:
        yield ok("disk", said)


def _store_files(store: Path | None) -> list[Path]:
    """Return the store and the files that SQLite keeps beside it."""
    if store is None:
        return []
    return [store, *(store.with_name(store.name + end) for end in ("-wal", "-shm", ".lock"))]


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def check_schema(path: Path, problems: Sequence[str]) -> Iterator[Finding]:
    """Check the differences between the schema of a store and that of its version."""
    if problems:
        yield error(
            "store",
            "store-schema",
            f"another program has changed {path}: {', '.join(problems)}",
            "undo the change, or restore a backup",
        )


def check_free_space(path: Path, stuck: int) -> Iterator[Finding]:
    """Check the free space in a store of an early version, which cannot return it to the disk."""
    if stuck >= STUCK_BYTES:
        yield warning(
            "store",
            "store-free-space",
            f"{format_size(stuck)} of {path} are free, and its early format cannot return them",
            "back it up and restore the backup",
        )


def _check_damage(path: Path) -> list[Finding]:
    """Check a file page by page, and that no commit of its last supervisor is missing."""
    from supervisor.store.sqlite.file_check import inspect_file  # noqa: PLC0415 - slow to import

    try:
        found = inspect_file(path, seconds=_CHECK_SECONDS)
    except TimeoutError as problem:
        return [warning("store", "store-unchecked", str(problem), "check a backup of it instead")]
    return [
        finding for one in found for finding in check_store_finding(one.code, one.detail, one.hint)
    ]


def find_store(database: str) -> Path | None:
    """Return the path of the daemon's store; None if the next daemon is to create it."""
    from supervisor.store.sqlite.file_check import is_new  # noqa: PLC0415 - slow to import

    path = Path(os.path.realpath(database))
    return None if is_new(path) else path


async def check_store(path: Path) -> list[Finding]:
    """Check that a file is undamaged and complete, and that every session in it can be read."""
    from supervisor.offline import open_for_reading  # noqa: PLC0415 - slow to import
    from supervisor.store.sqlite.inspection import schema_problems  # noqa: PLC0415 - slow too
    from supervisor.store.sqlite.space import stuck_bytes  # noqa: PLC0415 - slow too

    damage: list[Finding] = []
    try:
        async with open_for_reading(str(path)) as sup:
            damage = await trio.to_thread.run_sync(_check_damage, path)
            stats = await sup.stats()
    except (SupervisorError, OSError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem.args[0]
        return [
            *damage,
            error(
                "store",
                "store-unreadable",
                f"cannot read {path}: {why}",
                getattr(problem, "hint", "give the path of a store"),
            ),
        ]
    found = [
        *damage,
        *check_damaged_sessions(f"{path} is a store", stats.damaged),
        *check_schema(path, await trio.to_thread.run_sync(schema_problems, path)),
        *check_free_space(path, await trio.to_thread.run_sync(stuck_bytes, path)),
    ]
    return found or [ok("store", f"{path} has {stats.sessions} sessions, all readable")]
