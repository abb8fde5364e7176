"""The outbox: the queue of lines to the agent.

Rule 1: any task puts whole lines in without waiting; one task takes them out and writes. So a
        cancelled sender cannot cut a line.
Rule 2: a line leaves when the writing task takes it out. Until then it can be withdrawn; from then
        on, the agent may read it.
Rule 3: after a failed write nothing more is written, because it may have failed within a line. A
        line of which no byte was written has not left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import attrs
from trio.lowlevel import ParkingLot, checkpoint_if_cancelled

SendBytes: TypeAlias = Callable[[bytes], Awaitable[None]]
# Returns the number of bytes that all calls of a `SendBytes` have written so far.
CountBytes: TypeAlias = Callable[[], int]

# Above this, senders wait and no further message of the agent is handled.
MAX_WAITING_BYTES: Final = 1024 * 1024


class ConnectionLost(Exception):
    """The connection is lost; the agent may or may not have received the last messages."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@attrs.define(eq=False)
class OutgoingLine:
    """A line on its way to the agent."""

    # The number of bytes put into the outbox up to the end of the line.
    position: int = 0
    # True once the line has been taken out to be written: the agent may read it. False again if
    # that write failed before its first byte.
    has_left: bool = False


class RpcOutbox:
    """Queue of lines with the position of the writer."""

    def __init__(self) -> None:
        # Whole lines that have not left.
        self._lines: dict[OutgoingLine, bytes] = {}
        self._put_bytes = 0
        self._sent_bytes = 0
        # The size of the lines that are queued or being written.
        self._waiting_bytes = 0
        self._close_reason: str | None = None
        self._writer = ParkingLot()
        self._senders = ParkingLot()

    @property
    def is_closed(self) -> bool:
        """True if `put` would raise."""
        return self._close_reason is not None

    def check_open(self) -> None:
        """Raise `ConnectionLost` if the outbox is closed."""
        if self._close_reason is not None:
            raise ConnectionLost(self._close_reason)

    @property
    def has_space(self) -> bool:
        """True if `wait_for_space` would return at once."""
        return self._waiting_bytes <= MAX_WAITING_BYTES

    def put(self, line: bytes, outgoing: OutgoingLine | None = None) -> OutgoingLine:
        """Queue a line and follow it in `outgoing`.

        Raise `ConnectionLost` if the outbox is closed.
        """
        self.check_open()
        outgoing = outgoing or OutgoingLine()
        self._put_bytes += len(line)
        self._waiting_bytes += len(line)
        outgoing.position = self._put_bytes
        self._lines[outgoing] = line
        self._writer.unpark()
        return outgoing

    def withdraw(self, outgoing: OutgoingLine) -> None:
        """Remove a line, unless it has left."""
        line = self._lines.pop(outgoing, None)
        if line is not None:
            self._waiting_bytes -= len(line)
            self._senders.unpark_all()

    def is_sent(self, outgoing: OutgoingLine) -> bool:
        """Return True if everything up to the end of this line is written."""
        return self._sent_bytes >= outgoing.position

    async def wait_for_space(self) -> None:
        """Wait until there is space or the outbox is closed. Not always a checkpoint."""
        while self._close_reason is None and not self.has_space:
            await self._senders.park()

    async def wait_sent(self, outgoing: OutgoingLine) -> None:
        """Wait until everything up to the end of this line is written.

        Raise `ConnectionLost` if the outbox is closed before. A cancelled wait does not remove the
        line.
        """
        await checkpoint_if_cancelled()
        while not self.is_sent(outgoing):
            self.check_open()
            await self._senders.park()

    async def write_all(self, send: SendBytes, written: CountBytes | None = None) -> None:
        """Write queued lines until cancelled; raise the exceptions of `send`.

        If a write is cancelled half way, `send` must refuse later writes. Without `written`, all
        lines of a failed write have left.
        """
        while True:
            while not self._lines:
                await self._writer.park()
            lines, self._lines, end = self._lines, {}, self._put_bytes
            for outgoing in lines:
                outgoing.has_left = True
            batch = b"".join(lines.values())
            before = 0 if written is None else written()
            try:
                await send(batch)
            except BaseException:
                if written is not None:
                    _take_back(lines, written() - before)
                raise
            self._sent_bytes = end
            self._waiting_bytes -= len(batch)
            self._senders.unpark_all()

    def close(self, why: str) -> None:
        """Drop unwritten lines and wake all waiting tasks; a second call does nothing."""
        if self._close_reason is None:
            self._close_reason = why
            self._lines.clear()
            self._senders.unpark_all()


def _take_back(lines: Mapping[OutgoingLine, bytes], written_bytes: int) -> None:
    """Mark the lines of a failed write that start after its last byte as not left."""
    start = 0
    for outgoing, line in lines.items():
        outgoing.has_left = start < written_bytes
        start += len(line)
