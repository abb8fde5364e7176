"""Running a command's work: on trio, with its warnings on standard error, until Ctrl-C.

Rule 1: Ctrl-C cancels the work, so that it strikes only where the work waits. Raised wherever the
        program happens to be, it could pass for a failure of what it hit, or be lost.
Rule 2: what belongs to the process (signals, the log's handlers) is put back afterwards.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from supervisor.cli.terminal.screen import Screen

from .early import Importing
from .failures import INTERRUPTED, OK

if TYPE_CHECKING:  # late, for it takes its time
    import trio

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def signals_to_hear() -> list[signal.Signals]:
    """Those that end a command; what our parent has ignored, as nohup does, stays ignored."""
    return [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]


def run_async(screen: Screen, work: Callable[[], Awaitable[int | None]]) -> int:
    """Run it, and give its code, or 0. What it raises is raised bare if it is one thing.

    Ctrl-C cancels it, and is raised as `KeyboardInterrupt` when it is over; a second one does not
    wait for that.
    """
    with Importing():
        import trio  # noqa: PLC0415 - late

    with warnings_shown(screen):
        try:
            return trio.run(_until_told, work)
        except BaseExceptionGroup as group:
            raise _bare(group) from None


async def _until_told(work: Callable[[], Awaitable[int | None]]) -> int:
    import trio  # noqa: PLC0415 - late

    leave = trio.CancelScope()
    code: int | None = None
    async with trio.open_nursery() as nursery:
        # Only the main thread is told.
        if threading.current_thread() is threading.main_thread() and signals_to_hear():
            await nursery.start(_listen, leave)
        with leave:
            code = await work()
        nursery.cancel_scope.cancel(reason="the work is over")
    if leave.cancelled_caught:
        raise KeyboardInterrupt
    return OK if code is None else code


async def _listen(leave: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    import trio  # noqa: PLC0415 - late

    with trio.open_signal_receiver(*signals_to_hear()) as signals:
        task_status.started()
        async for _ in signals:
            if leave.cancel_called:
                os._exit(INTERRUPTED)
            leave.cancel(reason="a person wants to leave")


def _bare(group: BaseException) -> BaseException:
    """Ctrl-C, if it is among them, for that is what the person wants; else the first."""
    found = _flat(group)
    return next((one for one in found if isinstance(one, KeyboardInterrupt)), found[0])


def _flat(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [one for inside in error.exceptions for one in _flat(inside)]


@contextmanager
def warnings_shown(screen: Screen) -> Iterator[None]:
    """Have what anybody warns of said on standard error, and no traceback with it."""
    logger = logging.getLogger()
    handler = _Warnings(screen)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Warnings(logging.Handler):
    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.warn(record.getMessage())
