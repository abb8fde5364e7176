"""Those who are only told: they wait in one bounded queue, and nobody waits for them.

Rule 1: telling is one synchronous step that never fails; what is too much is dropped, the oldest
        first, counted, and said in the log once until the queue is empty again.
Rule 2: one event at a time, so that every observer sees them in the order in which they happened.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio

from supervisor.core.ids import SessionId, TurnId
from supervisor.drivers.port import Workshop

from .hook import Hook, HookEvent, HookFailed
from .points import ObservedPoint
from .run import Run

logger = logging.getLogger("supervisor")

MAX_WAITING: Final = 1000


@attrs.frozen(eq=False)
class News:
    """Something that has happened, for those who observed it then."""

    point: ObservedPoint
    session_id: SessionId | None
    turn_id: TurnId | None
    data: Mapping[str, Any]
    hooks: tuple[Hook, ...]
    above: tuple[str, ...]  # the hooks by whose doing it happened


class Observers:
    """The queue, and whoever works it off."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._waiting: deque[News] = deque()
        # There while something is not delivered, and set when all of it is.
        self._delivered: trio.Event | None = None
        self._wake: trio.Event | None = None
        self._is_dropping = False
        self.dropped = 0

    def tell(self, news: News) -> None:
        """Put it into the queue."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
            if not self._is_dropping:
                self._is_dropping = True
                logger.warning(
                    "observers are too slow: of %s events the oldest are dropped", MAX_WAITING
                )
        self._waiting.append(news)
        if self._delivered is None:
            self._delivered = trio.Event()
        if self._wake is not None:
            self._wake.set()

    async def wait_delivered(self) -> None:
        """Wait until all has been delivered; only while `run` runs does that happen."""
        if self._delivered is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._delivered.wait()

    async def run(self) -> None:
        """Deliver what there is, for ever; runs until cancelled."""
        try:
            while True:
                await self._wait()
                while self._waiting:
                    await self._deliver(self._waiting.popleft())
                self._is_dropping = False
                self._say_delivered()
        finally:
            self._say_delivered()

    async def _wait(self) -> None:
        self._wake = trio.Event()
        if self._waiting:
            self._wake.set()
        await self._wake.wait()
        self._wake = None

    async def _deliver(self, news: News) -> None:
        for hook in news.hooks:
            if hook.claim():
                event = HookEvent(news.point, news.session_id, news.turn_id, news.data)
                try:
                    await Run(hook, event, self._workshop, above=news.above).answer()
                except HookFailed as failure:
                    logger.warning(
                        "observer %s of %s failed for session %s: %s",
                        hook.name,
                        hook.point,
                        news.session_id,
                        failure,
                    )

    def _say_delivered(self) -> None:
        if self._delivered is not None:
            self._delivered.set()
            self._delivered = None
