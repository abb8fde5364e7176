"""Running a command's work: on trio, with its warnings on standard error.

What belongs to the process (the log's handler) is put back afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from supervisor.cli.terminal.screen import Screen

from .failures import OK


def run_async(screen: Screen, work: Callable[[], Awaitable[int | None]]) -> int:
    """Run it, and give its code, or 0. What it raises is raised bare if it is one thing.

    Ctrl-C cancels it, and is raised as `KeyboardInterrupt`.
    """
    import trio  # noqa: PLC0415 - late

    async def do() -> int:
        code = await work()
        return OK if code is None else code

    with warnings_shown(screen):
        try:
            return trio.run(do)
        except BaseExceptionGroup as group:
            raise _bare(group) from None


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
