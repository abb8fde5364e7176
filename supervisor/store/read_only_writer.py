"""The writer of a store that was opened to read only."""

from __future__ import annotations

import trio

from actors import Actor, Later
from supervisor.core.errors import StoreDegraded

from .pending import StoreHealth
from .writer_messages import QueuedWrite


class ReadOnlyWriter(Actor):
    """The writer of a read-only store: refuses every message with the reason in `health`."""

    def __init__(self, health: StoreHealth) -> None:
        self._health = health

    async def receive(self, message: object) -> Later[None]:
        """Refuse the message; the error is raised in the caller, this actor does not crash."""
        await trio.lowlevel.checkpoint()
        refused: Later[None] = Later()
        try:
            self._health.refuse_if_degraded()
        except StoreDegraded as error:
            refused.fail(error)
            if isinstance(message, QueuedWrite):
                message.lost(error)
        return refused
