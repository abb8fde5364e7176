"""All timers of all sessions, kept by one task.

A task or a cancel scope for each would cost more than the sessions. A timer is in the heap at most
once: setting it again only changes when it is due, and the heap is told when its turn comes.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable
from itertools import count

import trio

logger = logging.getLogger("supervisor")

# So many that were dropped may lie in the heap until they are due.
_FEW = 1_000


class Timer:
    """Something that is to happen later, unless it is set anew or cleared.

    Then `ring` is called with the timer's name.
    """

    __slots__ = ("_ring", "due", "name", "scheduled")

    def __init__(self, name: str, ring: Callable[[str], None]) -> None:
        self.name = name
        self._ring: Callable[[str], None] | None = ring
        self.due = math.inf
        # When the heap will look at it; inf while it is not in there.
        self.scheduled = math.inf

    def clear(self) -> None:
        """Not any more."""
        self.due = math.inf

    def drop(self) -> None:
        """Never again; lets go of whoever made it."""
        self.due = math.inf
        self._ring = None

    @property
    def is_dropped(self) -> bool:
        """Whether it will never ring again."""
        return self._ring is None

    def ring(self) -> None:
        """Its time has come."""
        if self._ring is not None:
            self._ring(self.name)


class Timers:
    """Sets timers, and runs them."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._nap = trio.CancelScope()
        # How many were dropped since the heap was last cleared of such.
        self._dropped = 0

    def set(self, timer: Timer, after_seconds: float) -> None:
        """Let it ring after so many seconds, and not when it was going to."""
        timer.due = trio.current_time() + after_seconds
        if timer.due < timer.scheduled:
            self._schedule(timer)

    def drop(self, timer: Timer) -> None:
        """Never let it ring again, and forget it."""
        timer.drop()
        self._dropped += 1
        if self._dropped > _FEW and self._dropped > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if not entry[2].is_dropped]
            heapq.heapify(self._heap)
            self._dropped = 0

    def _schedule(self, timer: Timer) -> None:
        timer.scheduled = timer.due
        heapq.heappush(self._heap, (timer.due, next(self._numbers), timer))
        if timer.due < self._nap.deadline:  # noqa: PLR1730 - setting it has a price
            self._nap.deadline = timer.due

    async def run(self) -> None:
        """Ring what is due, for ever; runs until cancelled."""
        while True:
            self._nap = trio.CancelScope()
            self._nap.deadline = self._heap[0][0] if self._heap else math.inf
            with self._nap:
                await trio.sleep_forever()
            self._ring_what_is_due()

    def _ring_what_is_due(self) -> None:
        now = trio.current_time()
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            at, _, timer = heapq.heappop(self._heap)
            if at != timer.scheduled:
                continue  # it was moved forward, and this is where it was before
            timer.scheduled = math.inf
            if timer.due <= now:
                due.append(timer)
            elif timer.due < math.inf:
                self._schedule(timer)
        # Each once: one that is set again for now, by whom it rings for, is due the next time.
        for timer in due:
            if timer.due <= now and timer.scheduled == math.inf:
                timer.due = math.inf
                try:
                    timer.ring()
                except Exception:
                    # Ours, and one session's: it must not be the end of all the others.
                    logger.exception("timer %s failed", timer.name)
