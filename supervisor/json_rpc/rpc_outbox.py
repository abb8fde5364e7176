"""The outbox: the queue of lines to the agent.

Rule 1: any task puts whole lines in without waiting; one task takes them out and writes one after
        the other. So a cancelled sender cannot cut a line.
Rule 2: a line has left when its first byte is written. Until then it can be withdrawn, also while
        the writing task waits for room in the pipe; from then on, the agent may read it.
Rule 3: after a failed write nothing more is written, because it may have failed within a line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import attrs
import trio
from trio.lowlevel import ParkingLot, checkpoint_if_cancelled

# Writes nothing after it was cancelled.
SendBytes: TypeAlias = Callable[[bytes], Awaitable[None]]
# Returns the number of bytes that all calls of a `SendBytes` have written so far.
CountBytes: TypeAlias = Callable[[], int]

# Above this, senders wait and no further message of the agent is handled.
MAX_WAITING_BYTES: Final = 1024 * 1024
# What a waiting line takes beside its own bytes: most answers are shorter than that.
_LINE_BYTES: Final = 500


class InputClosed(Exception):
    """The input of the other side is closed, by it or by us."""


class InputStuck(Exception):
    """The other side has not read its input within the time limit."""


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
    # Tells whether a byte was written; None until the line is taken out to be written.
    was_begun: Callable[[], bool] | None = None

    @property
    def has_left(self) -> bool:
        """True once a byte was written: the agent may read the line."""
        return self.was_begun is not None and self.was_begun()


class RpcOutbox:
    """Queue of lines with the position of the writer."""

    def __init__(self) -> None:
        # Whole lines to write, in order.
        self._lines: dict[OutgoingLine, bytes] = {}
        # The line that is being written.
        self._current: OutgoingLine | None = None
        self._current_write = trio.CancelScope()
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
        self._waiting_bytes += len(line) + _LINE_BYTES
        outgoing.position = self._put_bytes
        self._lines[outgoing] = line
        self._writer.unpark()
        return outgoing

    @property
    def last(self) -> OutgoingLine:
        """The position of everything that is put so far."""
        return OutgoingLine(self._put_bytes)

    def withdraw(self, outgoing: OutgoingLine) -> None:
        """Remove a line, unless it has left."""
        line = self._lines.pop(outgoing, None)
        if line is not None:
            self._waiting_bytes -= len(line) + _LINE_BYTES
            self._senders.unpark_all()
        elif outgoing is self._current and not outgoing.has_left:
            self._current_write.cancel(reason="the line was withdrawn")

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

        If a write is cancelled half way, `send` must refuse later writes. Without `written`, a line
        has left when its write begins.
        """
        while True:
            while not self._lines:
                await self._writer.park()
            outgoing = next(iter(self._lines))
            line = self._lines.pop(outgoing)
            outgoing.was_begun = _begun_after(written)
            self._current = outgoing
            with trio.CancelScope() as self._current_write:
                await send(line)
                self._sent_bytes = outgoing.position
            self._current = None
            if self._current_write.cancelled_caught:
                outgoing.was_begun = None  # withdrawn; what is written next is not of this line
            self._waiting_bytes -= len(line) + _LINE_BYTES
            self._senders.unpark_all()

    def close(self, why: str) -> None:
        """Drop unwritten lines and wake all waiting tasks; a second call does nothing."""
        if self._close_reason is None:
            self._close_reason = why
            self._lines.clear()
            self._senders.unpark_all()


def _begun_after(written: CountBytes | None) -> Callable[[], bool]:
    """Return a function that tells whether anything is written from now on."""
    if written is None:
        return lambda: True
    start = written()
    return lambda: written() > start
