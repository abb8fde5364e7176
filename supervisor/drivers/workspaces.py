"""Look at the workspace of a session; it blocks, so it runs in a thread."""

from __future__ import annotations

import os

from supervisor.core.workspace_root import WorkspaceRoot

from .birth_time import birth_time_ns


def find_root(workspace: str) -> WorkspaceRoot:
    """Return the folder of a workspace with all links resolved, also if it is missing."""
    path = os.path.realpath(workspace)
    try:
        found = os.stat(path)  # noqa: PTH116 - paths are str here
    except OSError:
        return WorkspaceRoot(path)
    return WorkspaceRoot(path, found.st_dev, found.st_ino, birth_time_ns(path, found.st_ino))
