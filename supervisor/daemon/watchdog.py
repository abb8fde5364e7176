"""The systemd watchdog: a notification each time the core components have replied.

Rule 1: this task proves that the loop runs; the registry, the writer and the store are asked.
Rule 2: without a reply nothing is sent. systemd acts on that, not the daemon.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

from trio_util import periodic

from .notify import Notifier

STATUS_SECONDS: Final = 10.0
logger = logging.getLogger("supervisor.daemon")


async def run_watchdog(notifier: Notifier, check: Callable[[float], Awaitable[None]]) -> None:
    """Run `check` three times per watchdog interval and notify systemd, until cancelled.

    `check` gets the time it may take, and raises if a component does not reply.
    """
    if notifier.watchdog_seconds is None:
        return
    period = notifier.watchdog_seconds / 3
    # aclosing: a cancelled check leaves the generator suspended, which trio warns about.
    async with aclosing(periodic(period)) as ticks:
        async for _ in ticks:
            try:
                await check(period)
            except Exception as error:  # noqa: BLE001 - any error means that a reply is missing
                logger.error("watchdog check failed: %s", type(error).__name__)  # noqa: TRY400 - the traceback adds nothing
            else:
                notifier.alive()


async def report_status(notifier: Notifier, describe: Callable[[], str]) -> None:
    """Keep the status text of the unit up to date, until cancelled."""
    if not notifier.is_enabled:
        return
    shown = ""
    async for _ in periodic(STATUS_SECONDS):
        status = describe()
        if status != shown:
            notifier.status(status)
            shown = status
