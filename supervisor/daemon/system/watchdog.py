"""Signs of life for systemd: given only when everybody who matters was asked, and has answered.

Rule 1: that this task runs says that the loop does. The tree, the writer and the store are asked.
Rule 2: no answer is no sign. It is systemd that acts on that, not we.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from .notify import Notifier

STATUS_SECONDS: Final = 10.0
logger = logging.getLogger("supervisor.daemon")


async def give_signs_of_life(notifier: Notifier, ask: Callable[[float], Awaitable[None]]) -> None:
    """Ask all, and say that they have answered, as often as systemd wants it; until cancelled.

    `ask` is given how long it may take, and raises if somebody does not answer.
    """
    patience = notifier.watchdog_seconds
    if patience is None:
        return
    pause = patience / 3
    while True:
        try:
            await ask(pause)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no answer
            logger.error("no sign of life: %s", type(error).__name__)  # noqa: TRY400 - where is of no use
        else:
            notifier.alive()
        await trio.sleep(pause)


async def keep_status(notifier: Notifier, describe: Callable[[], str]) -> None:
    """Have systemd show what goes on, as it changes; until cancelled."""
    said = ""
    while notifier.is_heard:
        says = describe()
        if says != said:
            notifier.status(says)
            said = says
        await trio.sleep(STATUS_SECONDS)
