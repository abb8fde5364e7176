"""Folders and files: who may read them, and how much room there is."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from supervisor.cli.terminal.times import size
from supervisor.configuration import DaemonSettings

from .finding import Finding, error, ok, warning

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
LITTLE_BYTES: Final = 1024**3
TOO_LITTLE_BYTES: Final = 64 * 1024**2


def look_at_places(settings: DaemonSettings, *, store: Path | None = None) -> Iterator[Finding]:
    """The daemon's folders and files, and a store if one was named."""
    state, socket = Path(settings.state_folder), Path(settings.socket)
    folders = dict.fromkeys((state, socket.parent))
    files = dict.fromkeys((Path(settings.database), Path(settings.token), *_beside(store)))
    found = [
        *(finding for folder in folders for finding in look_at_folder(folder)),
        *(finding for file in files for finding in look_at_file(file)),
    ]
    yield from found
    if not found:
        yield ok("permissions", f"{state} and what is in it is yours alone")
    yield from look_at_disk(state if store is None else store)


def look_at_folder(folder: Path) -> Iterator[Finding]:
    """Whether a folder, if it is there, is ours and nobody else's."""
    there = _stat(folder)
    if there is None:
        return  # it is made when it is first needed, as it should be
    if not stat.S_ISDIR(there.st_mode):
        yield error("permissions", "no-folder", f"{folder} is no folder", "move that file away")
    elif there.st_uid != os.geteuid():
        yield error(
            "permissions",
            "foreign-folder",
            f"{folder} belongs to user {there.st_uid}",
            "make it your own, or name another folder in daemon.state_folder and daemon.socket",
        )
    elif there.st_mode & _OTHERS:
        mode = stat.S_IMODE(there.st_mode)
        yield warning(
            "permissions",
            "open-folder",
            f"others may enter {folder} ({mode:o})",
            f"`chmod 700 {folder}`",
        )


def look_at_file(file: Path) -> Iterator[Finding]:
    """Whether a file, if it is there, is ours and nobody else can read it."""
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
    elif there.st_mode & _OTHERS:
        mode = stat.S_IMODE(there.st_mode)
        yield error(
            "permissions",
            "open-file",
            f"others may read {file} ({mode:o})",
            f"`chmod 600 {file}`",
        )


def look_at_disk(
    place: Path, usage: Callable[[Path], Any] = shutil.disk_usage
) -> Iterator[Finding]:
    """Whether there is room where sessions are kept."""
    folder = next((one for one in (place, *place.parents) if one.is_dir()), Path("/"))
    free = usage(folder).free
    said = f"{size(free)} free where {place} is"
    if free < TOO_LITTLE_BYTES:
        yield error("disk", "disk-full", said, "free some space: a full disk stops all new work")
    elif free < LITTLE_BYTES:
        yield warning(
            "disk", "disk-low", said, "free some space, or `understudy cleanup --older-than 30d`"
        )
    else:
        yield ok("disk", said)


def _beside(store: Path | None) -> list[Path]:
    """A store, and what SQLite keeps beside it."""
    if store is None:
        return []
    return [store, *(store.with_name(store.name + end) for end in ("-wal", "-shm", ".lock"))]


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
