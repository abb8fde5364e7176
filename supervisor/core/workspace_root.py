"""The folder behind a workspace: its path without links, its device, inode and birth time."""

from __future__ import annotations

import attrs


@attrs.frozen
class WorkspaceRoot:
    """Path without links, device and inode of a workspace; the last two are None if it is missing.

    `born_ns` tells a folder from a later one with the same inode; None if it is not known. The
    first look at a workspace pins it: a later look must find the same folder.
    """

    path: str
    device: int | None = None
    inode: int | None = None
    born_ns: int | None = None

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode; None if the folder is missing."""
        return None if self.device is None or self.inode is None else (self.device, self.inode)

    def agrees_with(self, later: WorkspaceRoot) -> bool:
        """Return True if a later look found this folder, or nothing that could be another one."""
        if self.path != later.path:
            return False
        if None in (self.identity, later.identity):
            return True
        is_same_birth = None in (self.born_ns, later.born_ns) or self.born_ns == later.born_ns
        return self.identity == later.identity and is_same_birth


def is_inside(path: str, folder: str) -> bool:
    """Return True if the path is the folder or lies below it; neither may contain links."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
