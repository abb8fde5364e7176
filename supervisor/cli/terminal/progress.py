"""Something that moves while work takes long: on standard error, and only on a terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from supervisor.core.printable import one_line

from .screen import Screen
from .times import duration

# Who is done sooner needs no company.
_PATIENCE_SECONDS: Final = 0.4
_STEP_SECONDS: Final = 0.1
_SIGNS: Final = "|/-\\"


@asynccontextmanager
async def progress(screen: Screen, what: str) -> AsyncIterator[None]:
    """Show, while the block lasts, that something is being done, and for how long already.

    What the block raises is raised bare.
    """
    if not screen.is_lively_beside:
        yield
        return
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_turn, screen, one_line(what))
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - raised again, bare, below
            failure = error
        nursery.cancel_scope.cancel(reason="the work is over")
    if failure is not None:
        raise failure


async def _turn(screen: Screen, what: str) -> None:
    began = trio.current_time()
    await trio.sleep(_PATIENCE_SECONDS)
    try:
        for number in range(1 << 31):
            sign = _SIGNS[number % len(_SIGNS)]
            _put(screen, f"\r{sign} {what} ({duration(trio.current_time() - began)})\x1b[K")
            await trio.sleep(_STEP_SECONDS)
    finally:
        _put(screen, "\r\x1b[K")


def _put(screen: Screen, text: str) -> None:
    screen.err.write(text)
    screen.err.flush()
