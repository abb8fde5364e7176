"""A start on a full disk: wait for room, visibly, and try again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from supervisor.core.errors import StoreDegraded

from .signals import DaemonSignals
from .systemd import Notifier

Opened = TypeVar("Opened")

logger = logging.getLogger("supervisor.daemon")

# With the time of an attempt, less than the two seconds within which the daemon notices room.
_RETRY_SECONDS: Final = 1.0
# Time that systemd gives the start after each attempt; more than the next one takes.
_EXTEND_SECONDS: Final = 60.0


async def open_when_room(
    attempt: Callable[[], Awaitable[Opened]], signals: DaemonSignals, notifier: Notifier
) -> Opened | None:
    """Call `attempt` until the disk has room for it; return its result.

    Return None if the exit is requested while this waits. Other errors of `attempt` are raised.
    """
    reported = ""
    while True:
        try:
            opened = await attempt()
        except StoreDegraded as error:
            if not error.is_disk_full:
                raise
            status = f"waiting for room on the disk: {error.args[0]}"
            if status != reported:
                logger.error("%s (hint: free some space; the daemon retries every second)", status)  # noqa: TRY400 - the text is complete
                reported = status
            notifier.waiting(status, extend_seconds=_EXTEND_SECONDS)
        else:
            if reported:
                logger.warning("the disk has room again, the start continues")
            return opened
        with trio.move_on_after(_RETRY_SECONDS):
            await signals.wait_to_leave()
            return None
