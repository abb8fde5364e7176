"""Bound of the unfinished lines of all agents together.

Rule 1: an agent whose line has at most `FREE_BYTES` never waits.
Rule 2: beyond `max_bytes` in all lines, only one agent reads on with its line, until the message in
        it is handled. The others are not read, so their pipes fill and they wait. They take turns.
Rule 3: if that agent has written nothing for `STUCK_SECONDS` while another one waits, its line is
        dropped as too long, so that an agent that hangs does not stop the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import trio

# Of one agent. Most messages are shorter.
FREE_BYTES: Final = 256 * 1024
STUCK_SECONDS: Final = 5.0


class LineBudget:
    """Bytes in unfinished lines of all agents, and the queue of agents that wait to write more."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        # Invariant: the sum over all shares.
        self.bytes = 0
        # The agent that reads on beyond the bound; it has more than `FREE_BYTES`.
        self._reader: LineShare | None = None
        self._queue: deque[LineShare] = deque()
        self._changed = trio.lowlevel.ParkingLot()

    @property
    def waiting(self) -> int:
        """Number of agents that wait to write more."""
        return len(self._queue)

    def set_limit(self, max_bytes: int) -> None:
        """Change the bound; lines that were begun stay."""
        self.max_bytes = max_bytes
        self._changed.unpark_all()

    def share(self, drop: Callable[[], None]) -> LineShare:
        """Return the share of another agent; `drop` drops its unfinished line."""
        return LineShare(self, drop)

    def update(self, share: LineShare, change: int) -> None:
        """Count the change of a share, and let waiting agents look again."""
        self.bytes += change
        if share is self._reader and share.bytes <= FREE_BYTES:
            self._reader = None
        if change < 0 and self._queue:
            self._changed.unpark_all()

    def may_read(self, share: LineShare) -> bool:
        """Return True if the agent may go on; beyond the bound it becomes the only one."""
        if share.bytes <= FREE_BYTES or self.bytes <= self.max_bytes or self._reader is share:
            return True
        if self._reader is None and (not self._queue or self._queue[0] is share):
            self._reader = share
            return True
        return False

    async def wait_for(self, share: LineShare) -> None:
        """Wait until the agent may go on with its line."""
        self._queue.append(share)
        try:
            while not self.may_read(share):
                with trio.move_on_after(STUCK_SECONDS) as bound:
                    await self._changed.park()
                if bound.cancelled_caught:
                    self._drop_stuck_line()
        finally:
            self._queue.remove(share)
            self._changed.unpark_all()  # another one is the first of the queue

    def _drop_stuck_line(self) -> None:
        reader = self._reader
        if reader is not None and reader.is_stuck:
            reader.drop()


class LineShare:
    """Bytes of one agent: its unfinished line, or the lines whose messages are handled."""

    __slots__ = ("_budget", "_drop", "_is_handling", "_received_at", "bytes")

    def __init__(self, budget: LineBudget, drop: Callable[[], None]) -> None:
        self._budget = budget
        self._drop = drop
        self._is_handling = False
        self._received_at = 0.0
        self.bytes = 0

    @property
    def is_stuck(self) -> bool:
        """Whether the agent has stopped in the middle of a line."""
        return not self._is_handling and (trio.current_time() - self._received_at >= STUCK_SECONDS)

    async def wait(self) -> None:
        """Wait until more of the line may be read. Not a checkpoint if that is so already."""
        if not self._budget.may_read(self):
            await self._budget.wait_for(self)
        self._received_at = trio.current_time()

    def begin_messages(self, received: int) -> None:
        """Count received bytes, which are handled now."""
        self._is_handling = True
        self._set(self.bytes + received)

    def end_messages(self, unfinished: int) -> None:
        """Count only the unfinished line; the messages before it were handled."""
        self._is_handling = False
        self._set(unfinished)

    def drop(self) -> None:
        """Drop the unfinished line."""
        self._drop()
        self._set(0)

    def _set(self, size: int) -> None:
        change = size - self.bytes
        if change:
            self.bytes = size
            self._budget.update(self, change)
