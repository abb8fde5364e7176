"""The last resort of an exit: a thread that ends the process when the exit takes too long.

The event loop cannot guarantee its own end: after an internal failure of trio, a task that waits
for a thread waits for ever, and a disk may never answer.

Rule 1: the thread needs neither the event loop nor a lock. A limit is passed through a
        `SimpleQueue`, whose `put` is safe in a signal handler.
Rule 2: no error in the thread keeps the process alive.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

import attrs

logger = logging.getLogger("supervisor.daemon")

# Every thread whose end would leave the daemon half dead has a name that begins with this.
THREAD_PREFIX: Final = "understudy"
_JOIN_SECONDS: Final = 1.0


@attrs.frozen
class _Limit:
    """The time at which the process is ended, the exit code and the line for the log."""

    at: float
    code: int
    line: str


class ExitWatchdog:
    """Ends the process at the earliest limit that was set; its thread runs during the block.

    `end_process` must not return; it is called in the thread.
    """

    def __init__(self, end_process: Callable[[int], object] = os._exit) -> None:
        self._end_process = end_process
        # None ends the thread.
        self._limits: SimpleQueue[_Limit | None] = SimpleQueue()
        self._watched_thread = threading.get_ident()
        self._thread = threading.Thread(
            target=self._run, name=f"{THREAD_PREFIX} exit watchdog", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._limits.put(None)
        self._thread.join(_JOIN_SECONDS)

    def exit_within(self, seconds: float, code: int, line: str) -> None:
        """End the process with the code after `seconds`, unless the block has ended by then.

        May be called in any thread and in a signal handler. The earliest limit counts.
        """
        self._limits.put(_Limit(time.monotonic() + seconds, code, line))

    def _run(self) -> None:
        earliest: _Limit | None = None
        while True:
            try:
                wait = None if earliest is None else max(0.0, earliest.at - time.monotonic())
                limit = self._limits.get(timeout=wait)
            except Empty:
                assert earliest is not None
                break
            except MemoryError:
                time.sleep(_JOIN_SECONDS)
                continue
            if limit is None:
                return
            if earliest is None or limit.at < earliest.at:
                earliest = limit
        try:
            logger.error("%s; it is in:\n%s", earliest.line, self._stack())
        finally:
            self._end_process(earliest.code)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._watched_thread)  # noqa: SLF001 - its documented use
        return "" if frame is None else "".join(traceback.format_stack(frame))
