"""Where a writer would be, of a store that is only read."""

from __future__ import annotations

import trio

from actors import Actor, Later
from supervisor.core.errors import StoreDegraded

from .health import Health


class NoWriter(Actor):
    """Whatever is asked of it is refused; `health` has been given up, and says why."""

    def __init__(self, health: Health) -> None:
        self._health = health

    async def receive(self, message: object) -> Later[None]:  # noqa: ARG002 - it is all the same
        """Refuse it; whoever asked hears why, and it is no crash of ours."""
        await trio.lowlevel.checkpoint()
        refused: Later[None] = Later()
        try:
            self._health.refuse_if_degraded()
        except StoreDegraded as trouble:
            refused.fail(trouble)
        return refused
