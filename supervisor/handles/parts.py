"""The parts of one supervisor that its handles call."""

from __future__ import annotations

import attrs

from supervisor.core.info import Info
from supervisor.core.state import SessionState
from supervisor.sessions.admission import Admission
from supervisor.sessions.deletion import Deletion
from supervisor.sessions.hooks.blocking import BlockingHooks
from supervisor.sessions.interrupter import Interrupter
from supervisor.sessions.lifecycle import Lifecycle
from supervisor.sessions.registry import SessionRegistry
from supervisor.sessions.repair import SessionRepair
from supervisor.sessions.router import SessionRouter
from supervisor.sessions.services import Services
from supervisor.sessions.session_info import session_info
from supervisor.sessions.spawn import Spawner

from .live_rows import LiveRows


@attrs.frozen(eq=False)
class Parts:
    """Components that every handle uses; only the modules of `handles` receive this class."""

    services: Services
    registry: SessionRegistry
    router: SessionRouter
    admission: Admission
    lifecycle: Lifecycle
    spawner: Spawner
    deletion: Deletion
    repair: SessionRepair
    hooks: BlockingHooks
    interrupter: Interrupter
    rows: LiveRows

    def info(self, session: SessionState, *, last_seq: int) -> Info:
        """Return the Info of a session."""
        return session_info(
            self.services, self.registry, self.admission, session, last_seq=last_seq
        )
