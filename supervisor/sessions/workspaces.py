"""Pinning of workspaces: a session works in the folder that was admitted, or not at all.

Rule 1: a workspace is pinned to its path without links, its device and inode when a session gets it
        (create, spawn, fork). After a resume by a user, or a restart, its first use pins it again.
Rule 2: a pin is checked whenever an agent or a command starts, and before a spawn or a fork.
Rule 3: a child's folder lies inside the folders of all its ancestors, links resolved.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import trio

from supervisor.core.errors import ConfigError
from supervisor.core.state import SessionState
from supervisor.core.tree.node import TreeNode
from supervisor.core.tree.tree import SessionTree
from supervisor.core.workspace_root import WorkspaceRoot, is_inside
from supervisor.drivers.workspaces import find_root
from supervisor.store.threads import run_in_thread

# A look takes microseconds, except on a network file system that does not answer.
LOOK_SECONDS: Final = 10.0


class Workspaces:
    """Looks at the workspaces of sessions, and pins them in the tree."""

    def __init__(self, tree: SessionTree, limiter: trio.CapacityLimiter) -> None:
        self._tree = tree
        self._limiter = limiter

    async def find(self, workspace: str | None) -> WorkspaceRoot | None:
        """Return the folder of a workspace; raise ConfigError if its file system does not answer.

        None without a workspace.
        """
        return None if workspace is None else (await self._find_all([workspace]))[0]

    async def open(self, session: SessionState) -> WorkspaceRoot | None:
        """Return the folder of the session's workspace, None if it has none; pin it if necessary.

        Raise ConfigError if it is another folder than the pinned one, or outside an ancestor's.
        """
        workspace = session.workspace
        if workspace is None:
            return None
        pinned = self._tree.workspace_roots.get(session.id)
        above = [] if pinned is not None else self._ancestors_with_workspace(session)
        found, *roots = await self._find_all([workspace, *(one.workspace or "" for one in above)])
        if pinned is not None and not pinned.agrees_with(found):
            raise ConfigError(
                f"the workspace {workspace} is not the folder that the session was given",
                hint="put that folder back, or stop and resume the session to use the new one",
            )
        for ancestor, root in zip(above, roots, strict=True):
            if not is_inside(found.path, root.path):
                raise ConfigError(
                    f"the workspace {workspace} leads to {found.path}, outside the workspace"
                    f" {ancestor.workspace} of session {ancestor.id}",
                    hint="make it a folder inside that workspace",
                )
        if session.id in self._tree.live and (pinned is None or pinned.identity is None):
            self._tree.pin_workspace(session.id, found)
        return found

    async def contains(self, session: SessionState, path: str) -> bool:
        """Return True if a path, relative to the session's workspace, is inside it."""
        if session.workspace is None:
            return False
        try:
            root = await self.open(session)
            target = await self.find(os.path.join(session.workspace, path))  # noqa: PTH118 - a str is needed
        except (ConfigError, ValueError):
            return False
        return root is not None and target is not None and is_inside(target.path, root.path)

    def _ancestors_with_workspace(self, session: SessionState) -> list[TreeNode]:
        node = self._tree.find(session.id)
        if node is None or node.parent is None:
            return []
        return [above for above in node.parent.path() if above.workspace is not None]

    async def _find_all(self, workspaces: Sequence[str]) -> list[WorkspaceRoot]:
        with trio.move_on_after(LOOK_SECONDS):
            return await run_in_thread(
                lambda: [find_root(workspace) for workspace in workspaces],
                self._limiter,
                abandon_on_cancel=True,
            )
        raise ConfigError(
            f"cannot look at the workspace {workspaces[0]} within {LOOK_SECONDS:g} seconds",
            hint="check its file system",
        )
