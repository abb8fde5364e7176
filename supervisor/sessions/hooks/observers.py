"""Bounded queue of notifications for observers, which are never awaited by a session.

Rule 1: to queue a notification is one synchronous step that never fails. If the queue is full the
        oldest is dropped and counted; the log says so once until the queue is empty again.
Rule 2: notifications are delivered one at a time, so every observer sees them in order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio

from supervisor.core.ids import SessionId, TurnId
from supervisor.drivers.port import DriverRuntime

from .hook import Hook, HookEvent, HookFailed
from .hook_run import HookRun
from .points import ObservedPoint

logger = logging.getLogger("supervisor")

MAX_WAITING: Final = 1000


@attrs.frozen(eq=False)
class HookNotification:
    """An event and the hooks that observed its point when it happened."""

    point: ObservedPoint
    session_id: SessionId | None
    turn_id: TurnId | None
    data: Mapping[str, Any]
    hooks: tuple[Hook, ...]
    path: tuple[str, ...]  # names of the running hooks that led to the event


class Observers:
    """Queue of notifications and the task that delivers them."""

    def __init__(self, runtime: DriverRuntime) -> None:
        self._runtime = runtime
        self._queue: deque[HookNotification] = deque()
        # Exists while a notification is undelivered; set when all are delivered.
        self._delivered: trio.Event | None = None
        self._wake: trio.Event | None = None
        self._is_dropping = False
        self.dropped = 0

    def enqueue(self, news: HookNotification) -> None:
        """Queue a notification; drop the oldest if the queue is full."""
        if len(self._queue) >= MAX_WAITING:
            self._queue.popleft()
            self.dropped += 1
            if not self._is_dropping:
                self._is_dropping = True
                logger.warning("observer queue is full at %s, dropping the oldest", MAX_WAITING)
        self._queue.append(news)
        if self._delivered is None:
            self._delivered = trio.Event()
        if self._wake is not None:
            self._wake.set()

    async def wait_delivered(self) -> None:
        """Wait until all notifications are delivered, or `run` has ended.

        Without a running `run` nothing is delivered, and the wait does not end.
        """
        if self._delivered is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._delivered.wait()

    async def run(self) -> None:
        """Deliver notifications until cancelled."""
        try:
            while True:
                await self._wait()
                while self._queue:
                    await self._deliver(self._queue.popleft())
                self._is_dropping = False
                self._set_delivered()
        finally:
            self._set_delivered()

    async def _wait(self) -> None:
        self._wake = trio.Event()
        if self._queue:
            self._wake.set()
        await self._wake.wait()
        self._wake = None

    async def _deliver(self, news: HookNotification) -> None:
        for hook in news.hooks:
            if hook.claim():
                event = HookEvent(news.point, news.session_id, news.turn_id, news.data)
                try:
                    await HookRun(hook, event, self._runtime, above=news.path).answer()
                except HookFailed as failure:
                    logger.warning(
                        "observer %s of %s failed for session %s: %s",
                        hook.name,
                        hook.point,
                        news.session_id,
                        failure,
                    )

    def _set_delivered(self) -> None:
        if self._delivered is not None:
            self._delivered.set()
            self._delivered = None
