"""Run a command, on trio or blocking, with warnings on standard error, until it ends or Ctrl-C.

Rule 1: Ctrl-C cancels the work, so that it takes effect only at a checkpoint. Raised at an
        arbitrary point, it could look like a failure of that code, or be lost. A command that only
        makes requests of the daemon has nothing to lose: the daemon completes what it has received.
Rule 2: process-wide state (signal handlers, log handlers) is restored afterwards.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from supervisor.core.log_content import revealed_arguments

from .early_interrupt import ExitOnInterrupt
from .failures import INTERRUPTED, OK
from .output import Screen

if TYPE_CHECKING:  # trio is imported late: it is slow
    import trio

_MAX_HELD_CHARACTERS: Final = 10_000
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_signals() -> list[signal.Signals]:
    """Return the signals that end a command, except those our parent ignores (as nohup does)."""
    return [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]


def run_async(screen: Screen, work: Callable[[], Awaitable[int | None]]) -> int:
    """Run the work and return its exit code (None is 0). Exception groups are unwrapped.

    Ctrl-C cancels the work, and is raised as `KeyboardInterrupt` when the work has ended; a second
    Ctrl-C does not wait for that.
    """
    with ExitOnInterrupt():
        import trio  # noqa: PLC0415 - late

    with warnings_on_screen(screen):
        try:
            return trio.run(_run_until_signal, work)
        except BaseExceptionGroup as group:
            raise _unwrapped(group) from None


def run_on_asyncio(screen: Screen, work: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Run the work of a full screen on asyncio and return its exit code (None is 0).

    On a full screen Ctrl-C is a key; before and after, it raises `KeyboardInterrupt`. Warnings are
    printed when the screen has gone.
    """
    with ExitOnInterrupt():
        import asyncio  # noqa: PLC0415 - late

    held = io.StringIO()
    try:
        with warnings_on_screen(Screen(as_json=screen.as_json, out=held, err=held)):
            code = asyncio.run(work())
    finally:
        screen.err.write(held.getvalue()[:_MAX_HELD_CHARACTERS])
    return OK if code is None else code


def run_reading(
    screen: Screen, state: str | None, work: Callable[[], Coroutine[Any, Any, int | None]]
) -> int:
    """Run work that only reads: a file on trio, or the daemon, if `state` is None, without trio.

    Work that raises `NeedsTrio` is run again on trio.
    """
    if state is None:
        with contextlib.suppress(NeedsTrio):
            return run_blocking(screen, work)
    return run_async(screen, work)


class NeedsTrio(Exception):
    """The work cannot be done without trio; raised before anything was done or printed."""


def run_requests(screen: Screen, work: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Run work that makes a few requests of the daemon, each with one answer, without trio."""
    return run_blocking(screen, work)


def run_blocking(screen: Screen, work: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Run work whose awaits never suspend, in one step; importing trio would take longer.

    Ctrl-C is raised as `KeyboardInterrupt`.
    """
    with ExitOnInterrupt():
        import supervisor.client  # noqa: F401, PLC0415 - late
    with warnings_on_screen(screen), interrupted_by_signals():
        steps = work()
        try:
            steps.send(None)
        except StopIteration as end:
            return OK if end.value is None else int(end.value)
        finally:
            steps.close()
    raise AssertionError("a command without trio has suspended")


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Raise `KeyboardInterrupt` in the block when a signal arrives that ends a command.

    For blocks that wait without suspending, also inside trio, whose handlers would be delayed.
    """
    # Only the main thread receives signals.
    is_main_thread = threading.current_thread() is threading.main_thread()
    before = {one: signal.getsignal(one) for one in (exit_signals() if is_main_thread else ())}
    try:
        for one in before:
            signal.signal(one, signal.default_int_handler)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


async def _run_until_signal(work: Callable[[], Awaitable[int | None]]) -> int:
    import trio  # noqa: PLC0415 - late

    leave = trio.CancelScope()
    code: int | None = None
    async with trio.open_nursery() as nursery:
        # Only the main thread receives signals.
        if threading.current_thread() is threading.main_thread() and exit_signals():
            await nursery.start(_cancel_on_signal, leave)
        with leave:
            code = await work()
        nursery.cancel_scope.cancel(reason="the work is over")
    if leave.cancelled_caught:
        raise KeyboardInterrupt
    return OK if code is None else code


async def _cancel_on_signal(leave: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    import trio  # noqa: PLC0415 - late

    with trio.open_signal_receiver(*exit_signals()) as signals:
        task_status.started()
        async for _ in signals:
            if leave.cancel_called:
                os._exit(INTERRUPTED)
            leave.cancel(reason="the user pressed Ctrl-C")


def _unwrapped(group: BaseException) -> BaseException:
    """Return the KeyboardInterrupt of the group, because the user asked for it.

    Without one, return the first error.
    """
    found = _leaf_errors(group)
    return next((one for one in found if isinstance(one, KeyboardInterrupt)), found[0])


def _leaf_errors(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [one for inside in error.exceptions for one in _leaf_errors(inside)]


@contextmanager
def warnings_on_screen(screen: Screen) -> Iterator[None]:
    """Print warnings of all loggers on standard error, without tracebacks."""
    logger = logging.getLogger()
    handler = _WarningHandler(screen)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _WarningHandler(logging.Handler):
    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        # The user of a command sees what the log of a daemon hides.
        shown = revealed_arguments(record.args)
        self._screen.warn(record.msg % shown if shown else str(record.msg))
