"""Requests to the daemon: by signal, or by the program that embeds it.

TERM, INT    first: drain and exit; second: interrupt turns and exit; third: exit at once
HUP          reload the configuration
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import trio
from trio_util import AsyncBool, AsyncValue

from .early_signals import HANDLED_SIGNALS, active_early_signals

logger = logging.getLogger("supervisor.daemon")

Urgency: TypeAlias = Literal["none", "graceful", "fast", "now"]
_URGENCIES: Final[tuple[Urgency, ...]] = ("none", "graceful", "fast", "now")
# Exit code of a process that ends at once: the shell's code for SIGKILL.
_KILLED: Final = 128 + signal.SIGKILL


class DaemonSignals:
    """Pending requests to one daemon; its methods may be called at any time."""

    def __init__(self, *, end_process: Callable[[int], object] = os._exit) -> None:
        self._end_process = end_process
        # Invariant: only moves to the right in _URGENCIES.
        self._urgency: AsyncValue[Urgency] = AsyncValue("none")
        self._reload = AsyncBool()

    @property
    def urgency(self) -> Urgency:
        """The urgency of the requested exit."""
        urgency: Urgency = self._urgency.value
        return urgency

    def leave(self) -> None:
        """Request the exit; each further call raises its urgency."""
        position = _URGENCIES.index(self._urgency.value)
        self._urgency.value = _URGENCIES[min(position + 1, len(_URGENCIES) - 1)]
        if self._urgency.value == "now":
            logger.error("exiting at once: agents are killed, the next start recovers")
            self._end_process(_KILLED)

    def reload(self) -> None:
        """Request a reload; several requests before the reload begins count as one."""
        self._reload.value = True

    async def wait_to_leave(self) -> None:
        """Wait until the exit is requested."""
        await self._urgency.wait_value(lambda urgency: urgency != "none")

    async def wait_to_leave_fast(self) -> None:
        """Wait until a fast exit is requested."""
        await self._urgency.wait_value(lambda urgency: urgency in ("fast", "now"))

    async def wait_to_reload(self) -> None:
        """Wait for a reload request and take it."""
        await self._reload.wait_value(True)  # noqa: FBT003 - the value waited for
        self._reload.value = False


async def handle_signals(
    signals: DaemonSignals, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Turn process signals into requests until cancelled; early signals come first.

    Runs in the main thread only.
    """
    early_signals = active_early_signals()
    with trio.open_signal_receiver(*HANDLED_SIGNALS) as received:
        task_status.started()
        for number in early_signals.take() if early_signals is not None else ():
            _handle_signal(signals, number)
        async for number in received:
            _handle_signal(signals, number)


def _handle_signal(signals: DaemonSignals, number: int) -> None:
    name = signal.Signals(number).name
    if number == signal.SIGHUP:
        logger.info("%s: reloading the configuration", name)
        signals.reload()
    else:
        signals.leave()
        logger.info("%s: exiting, %s", name, _URGENCY_TEXTS[signals.urgency])


_URGENCY_TEXTS: Final = {
    "graceful": "when turns have ended or their time is over; signal again to interrupt them",
    "fast": "turns are interrupted; signal again to exit without waiting",
    "now": "without waiting",
}
