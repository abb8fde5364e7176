"""Events on a disk, in order: everything that a power cut may interrupt.

A recording is self-contained: images are made from it alone, after the files are gone.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from .calls import in_short


@attrs.frozen
class Found:
    """The file existed before the recording, and is durable."""

    path: str
    contents: bytes = attrs.field(repr=in_short)


@attrs.frozen
class Created:
    """The file is new and empty; its name is not durable until its folder is synced."""

    path: str


@attrs.frozen
class Wrote:
    """The bytes were written at that offset."""

    path: str
    offset: int
    data: bytes = attrs.field(repr=in_short)


@attrs.frozen
class Truncated:
    """The file has this length now."""

    path: str
    size_bytes: int


@attrs.frozen
class Synced:
    """Earlier writes to the file are durable; with the folder, its names too."""

    path: str
    and_folder: bool


@attrs.frozen
class SyncFailed:
    """Writes that are not yet synced may be lost, and no later sync makes them durable."""

    path: str


@attrs.frozen
class Deleted:
    """The name is gone; if the folder was not synced, it may reappear with its content."""

    path: str
    and_folder: bool


@attrs.frozen
class Noted:
    """Not an event of the disk: a caller got an acknowledgement and relies on it from here on."""

    what: object


Operation: TypeAlias = Found | Created | Wrote | Truncated | Synced | SyncFailed | Deleted | Noted
