"""Queue of lines to the agent.

Rule 1: any task puts whole lines in without waiting; one task takes them out and writes. So a
        cancelled sender neither cuts a line nor takes one back.
Rule 2: after a failed write nothing more is written, because it may have failed within a line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio
from trio.lowlevel import ParkingLot

SendBytes: TypeAlias = Callable[[bytes], Awaitable[None]]

# Above this, senders wait and no further message of the agent is handled.
MAX_WAITING_BYTES: Final = 1024 * 1024


class ConnectionLost(Exception):
    """The connection is lost; the agent may or may not have acted on what was sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RpcOutbox:
    """Queue of lines with the position of the writer.

    A position is the number of bytes put in up to the end of a line.
    """

    def __init__(self) -> None:
        # Whole lines. Lines being written are not here any more, but still count as unsent.
        self._lines: list[bytes] = []
        self._put_bytes = 0
        self._sent_bytes = 0
        self._close_reason: str | None = None
        self._writer = ParkingLot()
        self._senders = ParkingLot()

    @property
    def is_closed(self) -> bool:
        """True if `put` would raise."""
        return self._close_reason is not None

    def check_open(self) -> None:
        """Raise `ConnectionLost` if `put` would."""
        if self._close_reason is not None:
            raise ConnectionLost(self._close_reason)

    @property
    def has_space(self) -> bool:
        """True if `wait_for_space` would return at once."""
        return self._put_bytes - self._sent_bytes <= MAX_WAITING_BYTES

    def put(self, line: bytes) -> int:
        """Queue a line and return its position; raise `ConnectionLost`."""
        self.check_open()
        self._lines.append(line)
        self._put_bytes += len(line)
        self._writer.unpark()
        return self._put_bytes

    def is_sent(self, position: int) -> bool:
        """Return whether everything up to this position is written."""
        return self._sent_bytes >= position

    async def wait_for_space(self) -> None:
        """Wait until there is space or the outbox is closed. Not always a checkpoint."""
        while self._close_reason is None and not self.has_space:
            await self._senders.park()

    async def wait_sent(self, position: int) -> None:
        """Wait until everything up to this position is written; raise `ConnectionLost`.

        A cancelled wait does not remove the line.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self.is_sent(position):
            self.check_open()
            await self._senders.park()

    async def write_all(self, send: SendBytes) -> None:
        """Write queued lines until cancelled; raise what `send` raises.

        If a write is cancelled half way, `send` must refuse later writes.
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
        """Drop unwritten lines and wake all waiting tasks; a second call does nothing."""
        if self._close_reason is None:
            self._close_reason = why
            self._lines.clear()
            self._senders.unpark_all()
