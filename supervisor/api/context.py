"""What the daemon provides to operations, beside the supervisor."""

from __future__ import annotations

from collections.abc import Callable

import attrs

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
