"""What the daemon is told to do, by signals or by whoever runs it in a program.

TERM, INT    the first: leave in peace; the second: leave fast; the third: end at once
HUP          read the configuration again
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import trio

from .held import HEARD, holder

logger = logging.getLogger("supervisor.daemon")

Haste: TypeAlias = Literal["stay", "peace", "fast", "now"]
_HASTE: Final[tuple[Haste, ...]] = ("stay", "peace", "fast", "now")
# What a process that ends at once exits with, as a shell says it of one that was killed.
_KILLED: Final = 128 + signal.SIGKILL


class Orders:
    """Made once for a daemon; every method may be called at any time."""

    def __init__(self, *, end_process: Callable[[int], object] = os._exit) -> None:
        self._end_process = end_process
        # Invariant: only ever moves to the right in _HASTE.
        self._haste: Haste = "stay"
        self._leaving = trio.Event()
        self._hurrying = trio.Event()
        self._reload = trio.Event()

    @property
    def haste(self) -> Haste:
        """How soon it is to leave."""
        return self._haste

    def leave(self) -> None:
        """Leave; sooner each time that this is called."""
        self._haste = _HASTE[min(_HASTE.index(self._haste) + 1, len(_HASTE) - 1)]
        self._leaving.set()
        if self._haste != "peace":
            self._hurrying.set()
        if self._haste == "now":
            logger.error("ending at once: agents are killed, and the next start puts all in order")
            self._end_process(_KILLED)

    def reload(self) -> None:
        """Read the configuration again; several before it has begun are one."""
        self._reload.set()

    async def wait_to_leave(self) -> None:
        """Wait until it is to leave."""
        await self._leaving.wait()

    async def wait_to_hurry(self) -> None:
        """Wait until it is to leave fast."""
        await self._hurrying.wait()

    async def wait_to_reload(self) -> None:
        """Wait until the configuration is to be read again; from then on the next order counts."""
        await self._reload.wait()
        self._reload = trio.Event()


async def obey_signals(
    orders: Orders, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Have signals give orders, until cancelled; those first that were held until now.

    Only in the main thread.
    """
    held = holder()
    with trio.open_signal_receiver(*HEARD) as received:
        task_status.started()
        for early in held.take() if held is not None else ():
            _obey(orders, early)
        async for one in received:
            _obey(orders, one)


def _obey(orders: Orders, one: int) -> None:
    name = signal.Signals(one).name
    if one == signal.SIGHUP:
        logger.info("%s: reading the configuration again", name)
        orders.reload()
    else:
        orders.leave()
        logger.info("%s: leaving, %s", name, _MEANS[orders.haste])


_MEANS: Final = {
    "peace": "once turns have ended, or are out of time; again to hurry",
    "fast": "at once: turns are interrupted; again to end without waiting for anybody",
    "now": "without waiting for anybody",
}
