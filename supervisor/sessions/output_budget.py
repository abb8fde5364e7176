"""Bound of the output of all sessions that is not durable yet, shared fairly between them.

Rule 1: a session that writes little never waits: it may have `FREE_BYTES` in flight.
Rule 2: a session that writes more is paced. It waits in one queue with the others, and the first of
        the queue gets `QUANTUM_BYTES` at a time. So every session gets as much as the others,
        however much it has to write, and the event loop handles the output of one at a time.
Rule 3: all sessions together have at most `max_bytes` in flight. Beyond, only a session with at
        most `FREE_BYTES` of its own gets a quantum, so that none waits for ever.
Rule 4: while a caller waits for an acknowledgement, no quantum is handed out, for at most
        `pending.MAX_YIELD_SECONDS`.
Rule 5: steps with more than `LARGE_BYTES` of output reach the store one at a time, also after
        callers that wait. So one commit has at most one of them, and the others' small steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio
from trio_util import RepeatedEvent

from supervisor.store.pending import WriteThrottle

# Of one session. Agents that stream text write far less in the 250 ms until it is flushed.
FREE_BYTES: Final = 16 * 1024
QUANTUM_BYTES: Final = 4 * 1024
MAX_SHARE_BYTES: Final = 64 * 1024
# Counted for a message of an agent that has no output.
MESSAGE_BYTES: Final = 200
# More than a session that is paced has in flight, and less than a long result, which is 1 MiB.
LARGE_BYTES: Final = 128 * 1024
# A session is paced for this time after its last quantum, even if all its output is durable: the
# output of a flood is durable again and again.
PACED_SECONDS: Final = 0.25


class OutputBudget:
    """Output of all sessions in flight, and the queue of sessions that wait to write more."""

    def __init__(self, max_bytes: int, throttle: WriteThrottle) -> None:
        self.max_bytes = max_bytes
        # Invariant: the sum over all shares.
        self.bytes = 0
        self._throttle = throttle
        # Shares whose agent waits, each once. A share that no longer waits is skipped.
        self._queue: deque[OutputShare] = deque()
        self._wake = RepeatedEvent()
        # Held by the session whose large step is on its way to the store.
        self._large_step = trio.Lock()

    @property
    def waiting(self) -> int:
        """Number of sessions that wait to write more."""
        return sum(share.is_awaited for share in self._queue)

    def share(self) -> OutputShare:
        """Return the share of another session."""
        return OutputShare(self)

    def set_limit(self, max_bytes: int) -> None:
        """Change the bound; output in flight stays."""
        self.max_bytes = max_bytes
        self._wake.set()

    def release(self, size: int) -> None:
        """Count output of a share as durable."""
        self.bytes -= size
        if size and self._queue:
            self._wake.set()

    def enqueue(self, share: OutputShare) -> None:
        """Queue a share, unless it is queued."""
        if not share.is_queued:
            share.is_queued = True
            self._queue.append(share)
            self._wake.set()

    @asynccontextmanager
    async def large_step(self) -> AsyncIterator[None]:
        """Wait until no other session commits a large step, and no caller waits."""
        async with self._large_step:
            await self._throttle.yield_to_callers()
            yield

    async def run(self) -> None:
        """Hand out quanta until cancelled."""
        while True:
            if self._find_next() is None:
                # Nothing is awaited between the check and the wait, so no wake-up is missed.
                await self._wake.wait()
                continue
            await self._throttle.yield_to_callers()
            self.grant_next()
            # The session runs before the next one gets a quantum.
            await trio.lowlevel.checkpoint()

    def grant_next(self) -> bool:
        """Give the next share a quantum; return False if none may have one."""
        share = self._find_next()
        if share is None:
            return False
        self._queue.remove(share)
        share.is_queued = False
        share.grant(QUANTUM_BYTES)
        return True

    def _find_next(self) -> OutputShare | None:
        while self._queue and not self._queue[0].is_awaited:
            self._queue.popleft().is_queued = False
        if self.bytes < self.max_bytes:
            return self._queue[0] if self._queue else None
        return next(
            (one for one in self._queue if one.is_awaited and one.bytes <= FREE_BYTES), None
        )


class OutputShare:
    """Output of one session in flight."""

    __slots__ = (
        "_allowed",
        "_budget",
        "_marks",
        "_paced_until",
        "_tasks",
        "_writable",
        "bytes",
        "is_queued",
        "marked_bytes",
    )

    def __init__(self, budget: OutputBudget) -> None:
        self._budget = budget
        self.bytes = 0
        # The agent waits while it has more bytes in flight.
        self._allowed = FREE_BYTES
        # None if the share was not paced, or no longer is: then no clock is read.
        self._paced_until: float | None = None
        # The number of a record, and the bytes in flight that are durable with it.
        self._marks: list[tuple[int, int]] = []
        self.marked_bytes = 0  # invariant: the sum over all marks
        # Wakes the tasks of the agent, which look again whether they may write. Made at the first
        # wait: it takes 1.8 KB, and most sessions never wait.
        self._writable: RepeatedEvent | None = None
        self._tasks = 0
        self.is_queued = False

    @property
    def is_awaited(self) -> bool:
        """Whether a task of the agent waits."""
        return self._tasks > 0

    @property
    def has_room(self) -> bool:
        """Whether the agent may write more."""
        return self.bytes <= self._allowed

    def add(self, size: int) -> None:
        """Count output that is not durable."""
        self.bytes += size
        self._budget.bytes += size

    def mark(self, seq: int, max_bytes: int | None = None) -> None:
        """Count output since the last mark as durable with this record: all, or `max_bytes`.

        Called only if there is such output.
        """
        size = self.bytes - self.marked_bytes
        if max_bytes is not None and size > max_bytes:
            size = max_bytes
        self._marks.append((seq, size))
        self.marked_bytes += size

    def release(self, up_to: int | None) -> None:
        """Release the output up to this record, which is durable; None: nothing is in flight."""
        marks = self._marks
        if up_to is not None and marks and marks[-1][0] > up_to:
            size = self._take_marks(up_to)
        else:
            size = self.bytes if up_to is None else self.marked_bytes
            marks.clear()
            self.marked_bytes = 0
        self.bytes -= size
        self._budget.release(size)
        if self.bytes or (self._paced_until is not None and self._is_paced(self._paced_until)):
            self._allowed = max(self._allowed - size, 0)
        else:
            self._allowed = FREE_BYTES
        if self._writable is not None:
            self._writable.set()

    def _take_marks(self, up_to: int) -> int:
        """Remove the marks up to this record, which is not the last; return their bytes."""
        size, count = 0, 0
        while self._marks[count][0] <= up_to:
            size += self._marks[count][1]
            count += 1
        del self._marks[:count]
        self.marked_bytes -= size
        return size

    def _is_paced(self, until: float) -> bool:
        is_over = trio.current_time() >= until
        if is_over:
            self._paced_until = None
        return not is_over

    def grant(self, size: int) -> None:
        """Allow that many more bytes in flight."""
        self._allowed = self.bytes + size
        self._paced_until = trio.current_time() + PACED_SECONDS
        if self._writable is not None:
            self._writable.set()

    async def pace(self, messages: int) -> None:
        """Count messages without output; wait for quanta if they come faster than is free.

        For a share that counts nothing else. They need no memory, only the time of the event loop.
        """
        now = trio.current_time()
        if self._paced_until is None or now >= self._paced_until:
            self._allowed, self._paced_until = FREE_BYTES, now + PACED_SECONDS
        self._allowed -= messages * MESSAGE_BYTES
        while not self.has_room:
            await self.wait()

    async def wait(self) -> None:
        """Wait for a quantum, or until the amount in flight has changed."""
        # Text that is still merged into a record has a bound of its own.
        if self.marked_bytes <= MAX_SHARE_BYTES:
            self._budget.enqueue(self)
        if self._writable is None:
            self._writable = RepeatedEvent()
        self._tasks += 1
        try:
            await self._writable.wait()
        finally:
            self._tasks -= 1
