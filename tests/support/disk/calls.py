"""Calls of SQLite to a disk, in the imperative: each may still fail.

Completed calls are events in the past tense, in `disk_events`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import attrs

# The database itself, its write-ahead log, and the rollback journal that is used instead of the
# log, or for a moment before it. Temporary files and shared memory do not outlive the process.
FileKind: TypeAlias = Literal["db", "wal", "journal"]

OK: Final = 0


def in_short(data: bytes) -> str:
    """Return a short form for reprs."""
    return f"<{len(data)} bytes>"


@attrs.frozen
class Open:
    path: str
    kind: FileKind
    may_create: bool


@attrs.frozen
class Write:
    path: str
    kind: FileKind
    offset: int
    data: bytes = attrs.field(repr=in_short)


@attrs.frozen
class Truncate:
    path: str
    kind: FileKind
    size_bytes: int


@attrs.frozen
class Sync:
    path: str
    kind: FileKind


@attrs.frozen
class Delete:
    path: str
    kind: FileKind
    and_sync_folder: bool


Call: TypeAlias = Open | Write | Truncate | Sync | Delete

# Runs the call on the disk below and returns SQLite's result code. A `Write` may be passed on with
# less data.
CarryOut: TypeAlias = Callable[[Call], int]

# Returns the result code for SQLite, with or without running the call.
Handle: TypeAlias = Callable[[Call, CarryOut], int]
