"""An animation while work takes long: on standard error, and only on a terminal."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from supervisor.core.text import one_line

from .output import Screen
from .text_format import format_duration

# Shorter work is not animated.
_DELAY_SECONDS: Final = 0.4
_FRAME_SECONDS: Final = 0.1
_FRAMES: Final = "|/-\\"


@asynccontextmanager
async def progress(screen: Screen, what: str) -> AsyncIterator[None]:
    """Show the activity and its duration while the block runs.

    Exceptions of the block are raised without an exception group.
    """
    if not screen.is_ansi_stderr:
        yield
        return
    if not _is_on_trio():
        with _animated_by_a_thread(screen, one_line(what)):
            yield
        return
    import trio  # noqa: PLC0415 - imported already

    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_animate, screen, one_line(what))
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - raised again, bare, below
            failure = error
        nursery.cancel_scope.cancel(reason="the work is over")
    if failure is not None:
        raise failure


def _is_on_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


@contextmanager
def _animated_by_a_thread(screen: Screen, what: str) -> Iterator[None]:
    """Animate while requests block this thread."""
    is_over = threading.Event()
    thread = threading.Thread(target=_animate_until, args=(screen, what, is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _animate_until(screen: Screen, what: str, is_over: threading.Event) -> None:
    began = time.monotonic()
    if is_over.wait(_DELAY_SECONDS):
        return
    signs = itertools.cycle(_FRAMES)
    while True:
        duration = format_duration(time.monotonic() - began)
        _write(screen, f"\r{next(signs)} {what} ({duration})\x1b[K")
        if is_over.wait(_FRAME_SECONDS):
            _write(screen, "\r\x1b[K")
            return


async def _animate(screen: Screen, what: str) -> None:
    import trio  # noqa: PLC0415 - imported already

    await trio.sleep(_DELAY_SECONDS)
    from trio_util import periodic  # noqa: PLC0415 - takes 5 ms, and most work is not animated

    signs = itertools.cycle(_FRAMES)
    try:
        async for shown_seconds, _ in periodic(_FRAME_SECONDS):
            duration = format_duration(_DELAY_SECONDS + shown_seconds)
            _write(screen, f"\r{next(signs)} {what} ({duration})\x1b[K")
    finally:
        _write(screen, "\r\x1b[K")


def _write(screen: Screen, text: str) -> None:
    screen.err.write(text)
    screen.err.flush()
