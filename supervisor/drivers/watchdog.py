"""Watchdog of the event loop: a thread that logs the stack of an agent that blocks the loop.

It watches the event loop, not a turn; `sessions/liveness.py` watches turns. An agent that never
yields cannot be stopped, because no other task runs until it yields. The thread logs, while it
happens, where the agent is.
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

POLL_SECONDS: Final = 1.0
STUCK_AFTER_SECONDS: Final = 5.0


def uses_real_clock() -> bool:
    """Return True if the event loop uses the system clock, not a clock of a test."""
    # trio has no public name for its default clock.
    return type(trio.lowlevel.current_clock()).__name__ == "SystemClock"


@contextmanager
def watch_event_loop(
    agents: Iterable[AgentKind],
    *,
    poll_seconds: float = POLL_SECONDS,
    stuck_after_seconds: float = STUCK_AFTER_SECONDS,
) -> Iterator[None]:
    """Log the stack of the event loop once each time that it stops responding.

    Does nothing under a test clock, where the loop is never late.
    """
    if not uses_real_clock():
        yield
        return
    watchdog = _Watchdog(agents, poll_seconds, stuck_after_seconds)
    watchdog.thread.start()
    try:
        yield
    finally:
        watchdog.stop()


def _code_of(function: object) -> CodeType | None:
    """Return the code that a call of the function runs, to find it in a stack."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class _Watchdog:
    def __init__(
        self, agents: Iterable[AgentKind], poll_seconds: float, stuck_after_seconds: float
    ) -> None:
        self._names: dict[CodeType, str] = {}
        for agent in agents:
            kind = agent.agent if isinstance(agent, Confined) else agent
            code = _code_of(kind.function) if isinstance(kind, PythonAgent) else None
            if code is not None:
                self._names[code] = agent.name
        self._poll_seconds = poll_seconds
        self._stuck_after_seconds = stuck_after_seconds
        self._loop = trio.lowlevel.current_trio_token()
        self._loop_thread = threading.get_ident()
        self._answered = threading.Event()
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="understudy watchdog", daemon=True)

    def stop(self) -> None:
        """Ask the thread to end, without waiting for it, because it holds no resources."""
        self._stopping.set()
        self._answered.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._poll_seconds):
            self._answered.clear()
            try:
                self._loop.run_sync_soon(self._answered.set)
            except trio.RunFinishedError:
                return
            if self._answered.wait(self._stuck_after_seconds) or self._stopping.is_set():
                continue
            self._log_stack()
            self._answered.wait()

    def _log_stack(self) -> None:
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
            "the event loop has not responded for %.1f s; it is in %s:\n%s",
            self._stuck_after_seconds,
            f"agent {', '.join(sorted(names))}" if names else "code outside of agents",
            "".join(reversed(stack.format())),
        )
