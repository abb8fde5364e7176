"""The actor that reports the exits of session actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from actors import Actor, Ended, Ref


class ExitMonitor(Actor):
    """Actor that watches session actors and reports their exits to the registry."""

    def __init__(self, on_exit: Callable[[Ref, object], None]) -> None:
        self._on_exit = on_exit

    async def receive(self, message: Any) -> None:  # noqa: ANN401 - an actor's mailbox
        """Report the exit of a session actor to the registry."""
        if isinstance(message, Ended) and isinstance(message.ref, Ref):
            self._on_exit(message.ref, message.reason)
        await trio.lowlevel.checkpoint()
