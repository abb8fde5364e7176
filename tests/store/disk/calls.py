"""What SQLite asks of a disk, in the imperative: each may still fail.

What has happened is in the past tense, in `operations`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import attrs

# The database itself, its write-ahead log, and the rollback journal that is there instead of the
# log, or for a moment before it. Temporary files and the shared memory are nobody's yesterday.
FileKind: TypeAlias = Literal["db", "wal", "journal"]

OK: Final = 0


def in_short(data: bytes) -> str:
    """For reprs, which are read by people."""
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

# Does it, on the disk below, and gives SQLite's result code. A `Write` may be passed on with less
# data than it came with.
CarryOut: TypeAlias = Callable[[Call], int]

# Gives the result code that SQLite is to see, having carried out the call or not.
Handle: TypeAlias = Callable[[Call, CarryOut], int]
