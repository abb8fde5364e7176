"""What has happened on a disk, in the past tense and in order: all that a power cut can fall into.

A recording is complete in itself: images are made from it alone, when the files are long gone.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from .calls import in_short


@attrs.frozen
class Found:
    """The file was there before the recording, and is as durable as can be."""

    path: str
    contents: bytes = attrs.field(repr=in_short)


@attrs.frozen
class Created:
    """The file is new and empty; until its folder is synced, so is the name."""

    path: str


@attrs.frozen
class Wrote:
    """These bytes are at that offset now."""

    path: str
    offset: int
    data: bytes = attrs.field(repr=in_short)


@attrs.frozen
class Truncated:
    """The file is this long now."""

    path: str
    size_bytes: int


@attrs.frozen
class Synced:
    """What was written to the file before is durable; with the folder, so are its names."""

    path: str
    and_folder: bool


@attrs.frozen
class SyncFailed:
    """What was written and not yet synced may be lost, and no later sync will bring it back."""

    path: str


@attrs.frozen
class Deleted:
    """The name is gone; if the folder was not synced, it may come back with all that it had."""

    path: str
    and_folder: bool


@attrs.frozen
class Noted:
    """Not the disk's: somebody was told something, and relies on it from here on."""

    what: object


Operation: TypeAlias = Found | Created | Wrote | Truncated | Synced | SyncFailed | Deleted | Noted
