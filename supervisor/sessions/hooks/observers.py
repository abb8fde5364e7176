"""Bounded queue of notifications for observers, which are never awaited by a session.

Rule 1: to queue a notification is one synchronous step that never fails. If the queue is full the
        oldest notification is dropped and counted, which is logged once until the queue is empty.
Rule 2: notifications are delivered one at a time, so every observer sees them in order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import attrs
from trio_util import AsyncBool, RepeatedEvent

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.log_content import Content
from supervisor.drivers.runtime import DriverRuntime

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
        # False from the first notification that is queued until all are delivered, or `run` ends.
        self._all_delivered = AsyncBool(value=True)
        self._wake = RepeatedEvent()
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
        self._all_delivered.value = False
        self._wake.set()

    async def wait_delivered(self) -> None:
        """Wait until all notifications are delivered, or `run` has ended.

        Without a running `run` nothing is delivered, and the wait does not end.
        """
        await self._all_delivered.wait_value(True)  # noqa: FBT003 - the value waited for

    async def run(self) -> None:
        """Deliver notifications until cancelled."""
        try:
            while True:
                # Nothing is awaited between the check and the wait, so no wake-up is missed.
                if not self._queue:
                    await self._wake.wait()
                while self._queue:
                    await self._deliver(self._queue.popleft())
                self._is_dropping = False
                self._all_delivered.value = True
        finally:
            self._all_delivered.value = True

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
                        Content(failure, shown=failure.kind),
                    )
