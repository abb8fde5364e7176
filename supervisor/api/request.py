"""The decoded request that an operation gets, and what the daemon provides to operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from supervisor.handles.session import Session
from supervisor.handles.supervisor import Supervisor
from supervisor.store.pending import StoreState

from .backup_folder import BackupFolder
from .drain import DrainState


@attrs.frozen(kw_only=True)
class OperationContext:
    """The supervisor, and the functions and state that the daemon provides to operations."""

    sup: Supervisor
    drain_state: DrainState
    version: str
    metrics: Callable[[], bytes] | None = None
    store_state: Callable[[], StoreState] | None = None
    document: Callable[[], bytes] = bytes
    # The folder of backups; None if this process has none.
    backups: BackupFolder | None = None
    # Whether requests come over a unix socket, so that the caller is the user of this process.
    is_unix_socket: bool = True


@attrs.frozen(kw_only=True)
class OperationCall:
    """One decoded request: the supervisor, the session in the path, the arguments."""

    context: OperationContext
    path_ids: Mapping[str, str]  # ids in the path, by name
    arguments: Mapping[str, Any]  # only the given arguments, by name
    headers: Mapping[str, str]  # the headers that operations receive
    wait_disconnected: Callable[[], Awaitable[None]]  # returns when the client disconnects

    @property
    def sup(self) -> Supervisor:
        """The supervisor."""
        return self.context.sup

    @property
    def session(self) -> Session:
        """A handle on the session in the path."""
        return self.context.sup.session(self.path_ids["id"])
