"""Requests to the daemon: by signal, or by the program that embeds it.

TERM, INT    first: drain and exit; second: interrupt turns and exit; third: exit at once
HUP          reload the configuration
"""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import trio
from trio_util import AsyncBool, AsyncValue

from .early_signals import EarlySignals, active_early_signals

logger = logging.getLogger("supervisor.daemon")

Urgency: TypeAlias = Literal["none", "graceful", "fast", "now"]
_URGENCIES: Final[tuple[Urgency, ...]] = ("none", "graceful", "fast", "now")
# Bounds the time until the process has ended; called in a signal handler too.
LimitExit: TypeAlias = Callable[[Urgency], object]


def raised(urgency: Urgency) -> Urgency:
    """Return the next urgency; the last one stays."""
    return _URGENCIES[min(_URGENCIES.index(urgency) + 1, len(_URGENCIES) - 1)]


class DaemonSignals:
    """Pending requests to one daemon; its methods may be called at any time."""

    def __init__(self) -> None:
        # Invariant: only moves to the right in _URGENCIES.
        self._urgency: AsyncValue[Urgency] = AsyncValue("none")
        self._reload = AsyncBool()
        # Set while a daemon runs.
        self.limit_exit: LimitExit | None = None

    @property
    def urgency(self) -> Urgency:
        """The urgency of the requested exit."""
        urgency: Urgency = self._urgency.value
        return urgency

    def leave(self) -> None:
        """Request the exit; each further call raises its urgency."""
        self._urgency.value = raised(self.urgency)
        if self.limit_exit is not None:
            self.limit_exit(self.urgency)

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

    Runs in the main thread only. Not `open_signal_receiver`: a signal must bound the time of the
    exit even if the event loop is stuck, or this task has ended.
    """
    early_signals = active_early_signals()
    with EarlySignals() if early_signals is None else contextlib.nullcontext(early_signals) as ours:
        ours.pass_on(_Receiver(signals))
        task_status.started()
        await trio.sleep_forever()


class _Receiver:
    """Receives signals in their handler: bounds the exit there, the rest is done in the loop."""

    def __init__(self, signals: DaemonSignals) -> None:
        self._signals = signals
        self._urgency = signals.urgency
        self._loop = trio.lowlevel.current_trio_token()

    def __call__(self, number: int) -> None:
        if number != signal.SIGHUP:
            self._urgency = raised(self._urgency)
            if self._signals.limit_exit is not None:
                self._signals.limit_exit(self._urgency)
        with contextlib.suppress(trio.RunFinishedError):
            self._loop.run_sync_soon(_handle_signal, self._signals, number)


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
