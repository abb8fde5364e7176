"""Lines on their way to the agent.

Rule 1: a line is put in whole and at once, by whoever; one task takes them out and writes. So a
        sender that is cancelled neither cuts a line in half nor takes one back.
Rule 2: when writing has failed nothing more is written, for it may have failed in mid-line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio
from trio.lowlevel import ParkingLot

Send: TypeAlias = Callable[[bytes], Awaitable[None]]

# Above this, senders wait and no further message of the agent is looked at.
MAX_WAITING_BYTES: Final = 1024 * 1024


class ConnectionLost(Exception):
    """The agent cannot be reached any more; what it was sent may or may not have been done."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Outbox:
    """What is to be written, in order, and how far that has got.

    A place is the number of bytes that were put in up to the end of a line.
    """

    def __init__(self) -> None:
        # Whole lines. Those in the writer's hands are no longer here, but still count as waiting.
        self._lines: list[bytes] = []
        self._put_bytes = 0
        self._sent_bytes = 0
        self._closed: str | None = None
        self._writer = ParkingLot()
        self._senders = ParkingLot()

    @property
    def is_closed(self) -> bool:
        """Whether `put` would refuse."""
        return self._closed is not None

    def refuse_if_closed(self) -> None:
        """Raise `ConnectionLost` if `put` would."""
        if self._closed is not None:
            raise ConnectionLost(self._closed)

    @property
    def has_room(self) -> bool:
        """Whether `wait_room` would not wait."""
        return self._put_bytes - self._sent_bytes <= MAX_WAITING_BYTES

    def put(self, line: bytes) -> int:
        """Have the line written, behind those that were put in before; gives its place.

        Raises `ConnectionLost`.
        """
        self.refuse_if_closed()
        self._lines.append(line)
        self._put_bytes += len(line)
        self._writer.unpark()
        return self._put_bytes

    def is_sent(self, place: int) -> bool:
        """Whether all up to there has been written."""
        return self._sent_bytes >= place

    async def wait_room(self) -> None:
        """Wait until there is little enough; or until it is closed. Not always a checkpoint."""
        while self._closed is None and not self.has_room:
            await self._senders.park()

    async def wait_sent(self, place: int) -> None:
        """Wait until all up to there has been written; raises `ConnectionLost`.

        Cancelled, it changes nothing: what was put in is written.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self.is_sent(place):
            self.refuse_if_closed()
            await self._senders.park()

    async def write_all(self, send: Send) -> None:
        """Write what is put in, until cancelled; what `send` raises is raised.

        Cancelled half way, it is for `send` to see that nothing can follow.
        """
        while True:
            while not self._lines:
                await self._writer.park()
            batch = b"".join(self._lines)
            self._lines.clear()
            await send(batch)
            self._sent_bytes += len(batch)
            self._senders.unpark_all()

    def close(self, why: str) -> None:
        """Write nothing more, and tell who waits; doing so again does nothing."""
        if self._closed is None:
            self._closed = why
            self._lines.clear()
            self._senders.unpark_all()
