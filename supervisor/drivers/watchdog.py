"""Notices an agent that never lets go of the loop, from the only place that still can: a thread.

Such an agent cannot be stopped, for nothing else runs until it yields. What can be done is to say
so while it happens, and where.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Final

import trio

from .confined import Confined
from .port import AgentKind
from .python import PythonAgent

logger = logging.getLogger("supervisor")

LOOK_EVERY_SECONDS: Final = 1.0
STUCK_AFTER_SECONDS: Final = 5.0


def time_is_real() -> bool:
    """Whether the loop goes by the machine's own clock, and not by one of a test."""
    # trio has no public name for the clock that it uses when it is given none.
    return type(trio.lowlevel.current_clock()).__name__ == "SystemClock"


@contextmanager
def watch_over_the_loop(
    agents: Iterable[AgentKind],
    *,
    look_every_seconds: float = LOOK_EVERY_SECONDS,
    stuck_after_seconds: float = STUCK_AFTER_SECONDS,
) -> Iterator[None]:
    """Log the loop's stack, once each time that it does not answer for a while.

    Only where time is real: a simulated loop is never late.
    """
    if not time_is_real():
        yield
        return
    watchdog = _Watchdog(agents, look_every_seconds, stuck_after_seconds)
    watchdog.thread.start()
    try:
        yield
    finally:
        watchdog.stop()


def _code_of(function: object) -> CodeType | None:
    """The code that runs when it is called, to be recognised in a stack."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class _Watchdog:
    def __init__(
        self, agents: Iterable[AgentKind], look_every_seconds: float, stuck_after_seconds: float
    ) -> None:
        self._names: dict[CodeType, str] = {}
        for agent in agents:
            kind = agent.agent if isinstance(agent, Confined) else agent
            code = _code_of(kind.function) if isinstance(kind, PythonAgent) else None
            if code is not None:
                self._names[code] = agent.name
        self._look_every_seconds = look_every_seconds
        self._stuck_after_seconds = stuck_after_seconds
        self._loop = trio.lowlevel.current_trio_token()
        self._loop_thread = threading.get_ident()
        self._answered = threading.Event()
        self._leaving = threading.Event()
        self.thread = threading.Thread(target=self._run, name="understudy watchdog", daemon=True)

    def stop(self) -> None:
        """End the thread; it is not waited for, for it holds nothing."""
        self._leaving.set()
        self._answered.set()

    def _run(self) -> None:
        while not self._leaving.wait(self._look_every_seconds):
            self._answered.clear()
            try:
                self._loop.run_sync_soon(self._answered.set)
            except trio.RunFinishedError:
                return
            if self._answered.wait(self._stuck_after_seconds) or self._leaving.is_set():
                continue
            self._say_where()
            self._answered.wait()

    def _say_where(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - its documented use
        if frame is None:
            return
        stack = traceback.StackSummary.extract(traceback.walk_stack(frame))
        names = {
            self._names[seen.f_code]
            for seen, _ in traceback.walk_stack(frame)
            if seen.f_code in self._names
        }
        logger.error(
            "the loop has not answered for %.1f s; it is in %s:\n%s",
            self._stuck_after_seconds,
            f"agent {', '.join(sorted(names))}" if names else "code that is no agent's",
            "".join(reversed(stack.format())),
        )
