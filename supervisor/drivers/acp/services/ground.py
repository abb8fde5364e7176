"""Where an agent may work through us: its workspace, and of that what the rights leave.

Rule 1: a path is resolved before it is looked at, links and all, and only where it leads counts.
Rule 2: these are looks at the disk, so they belong into a thread; and what was true when it was
        looked at may not be when it is opened, so whoever opens it follows no links (`opening`).
"""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import Final, Self
from urllib.parse import unquote, urlsplit

import attrs

from supervisor.drivers.port import Office

_MAX_PATH_LETTERS: Final = 4096


class OffLimits(Exception):
    """The path leads out of the ground, or is no path."""


@attrs.frozen
class Pin:
    """A workspace as it was when its agent began: whoever moves it away gets nothing instead."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, workspace: str | None) -> Self | None:
        """Where it is now; None if it is nowhere, and so will not be served."""
        if workspace is None:
            return None
        path = os.path.realpath(workspace)
        try:
            found = os.stat(path)  # noqa: PTH116 - a text
        except OSError:
            return None
        return cls(path, found.st_dev, found.st_ino)

    def is_still(self, found: os.stat_result) -> bool:
        """Whether that is the same folder."""
        return (found.st_dev, found.st_ino) == (self.device, self.inode)


@attrs.frozen
class Place:
    """A path on the ground, with no link in it when it was resolved: `parts` lie below `root`."""

    root: str
    parts: tuple[str, ...]
    pin: Pin | None = None

    @property
    def path(self) -> str:
        """All of it."""
        return os.path.join(self.root, *self.parts)  # noqa: PTH118 - a text in, a text out


@attrs.frozen
class Ground:
    """A workspace; `paths`, if there are any, are all of it that may be touched."""

    workspace: str
    paths: frozenset[str] | None = None
    pin: Pin | None = None

    @classmethod
    def of(cls, office: Office, pin: Pin | None = None) -> Self | None:
        """The session's, as of now; None if it has no workspace, or a right to nothing of it."""
        paths = office.permissions.workspace_paths
        if office.workspace is None or (paths is not None and not paths):
            return None
        return cls(office.workspace, paths, pin)

    def place(self, path: str) -> Place:
        """Where an absolute path leads; raises `OffLimits` if that is not on the ground."""
        if not _is_sane(path) or not path.startswith("/"):
            raise OffLimits
        root = os.path.realpath(self.workspace) if self.pin is None else self.pin.path
        if self.pin is not None and not self.pin.is_still(os.stat(root)):  # noqa: PTH116 - a text
            raise OffLimits
        real = os.path.realpath(path)
        if not _lies_in(real, root):
            raise OffLimits
        if self.paths is not None and not any(
            _lies_in(real, os.path.realpath(self._absolute(allowed))) for allowed in self.paths
        ):
            raise OffLimits
        return Place(root, PurePosixPath(real).relative_to(root).parts, self.pin)

    def place_of(self, path: str) -> Place:
        """The same for a path as tools have them: relative to the workspace, or a file's address.

        What begins with ~ is somebody's home, and that is elsewhere.
        """
        return self.place(self._absolute(_as_path(path)))

    def _absolute(self, path: str) -> str:
        return os.path.join(self.workspace, path)  # noqa: PTH118 - as above


def _is_sane(path: str) -> bool:
    return 0 < len(path) <= _MAX_PATH_LETTERS and "\0" not in path and not path.startswith("~")


def _as_path(text: str) -> str:
    if not _is_sane(text):
        raise OffLimits
    if not text.startswith("file:"):
        return text
    try:
        address = urlsplit(text)
    except ValueError:
        raise OffLimits from None
    if address.netloc not in ("", "localhost"):
        raise OffLimits
    return unquote(address.path)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
