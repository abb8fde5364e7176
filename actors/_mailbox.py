"""The mailbox: two bounded lanes and one reader.

Rule 1: nothing in this file waits except `wait`, and nothing is taken out there: a cancelled
        reader has lost nothing.
Rule 2: full refuses and gives the message back; closed refuses.
Rule 3: closing hands out everything inside in the same step, so nothing slips in behind.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import trio
from trio.lowlevel import Abort, reschedule

from ._errors import ActorStopped, MailboxFull
from ._message import Question


class Nothing:
    """The type of `NOTHING`: there is no message to take (None is a fine message)."""


NOTHING: Final = Nothing()
_CLOSED: Final = -1


class Mailbox:
    """Messages for one actor; survives its incarnations, closed at its end."""

    __slots__ = ("capacity", "limit", "ordinary", "owner", "reader", "urgent")

    def __init__(self, owner: str, capacity: int) -> None:
        self.owner = owner
        self.capacity = capacity
        # Invariant: `limit` is the capacity while open and _CLOSED ever after, so that one
        # comparison on the way in answers both "full?" and "closed?".
        self.limit = capacity
        self.ordinary: deque[Any] = deque()
        # An empty deque weighs more than half a KiB and most actors never get anything
        # urgent, so this lane is made on first use.
        self.urgent: deque[Any] | None = None
        # Invariant: the one task in `wait`, from parking until it is woken or cancelled.
        self.reader: trio.lowlevel.Task | None = None

    def put(self, message: object, *, urgent: bool = False) -> None:
        """Take the message in, or raise `MailboxFull` or `ActorStopped` and leave it out."""
        lane = self._urgent_lane() if urgent else self.ordinary
        if len(lane) >= self.limit:
            raise self.refusal(message)
        self.wake()
        lane.append(message)

    def put_reserved(self, message: object) -> None:
        """Take in news that was promised a place: an end that the owner watches for.

        It goes behind whatever the ended actor sent before, and may exceed the capacity by
        at most one for each watch. A closed box ignores it: there is nobody to tell.
        """
        if self.limit == _CLOSED:
            return
        self.ordinary.append(message)
        self.wake()

    def take(self) -> Any:
        """The next message, urgent ones first, or NOTHING."""
        if self.urgent:
            return self.urgent.popleft()
        if self.ordinary:
            return self.ordinary.popleft()
        return NOTHING

    async def wait(self) -> None:
        """Sleep until `wake` is called, which every message does. One reader at a time."""
        self.reader = trio.lowlevel.current_task()
        self.urgent = None  # it is empty, or we would not wait; an empty deque takes 600 bytes
        await trio.lowlevel.wait_task_rescheduled(self._leave)

    def wake(self) -> None:
        """Let the reader look again, if it sleeps."""
        reader = self.reader
        if reader is not None:
            reschedule(reader)  # raises in a foreign thread, and then nothing has changed
            self.reader = None

    def close(self) -> list[Any]:
        """Refuse from now on, and hand out what was inside, urgent first. Closing twice is fine."""
        inside = [*(self.urgent or ()), *self.ordinary]
        self.limit = _CLOSED
        self.urgent = None
        self.ordinary.clear()
        self.wake()
        return inside

    @property
    def closed(self) -> bool:
        return self.limit == _CLOSED

    @property
    def waiting(self) -> int:
        return len(self.ordinary)

    @property
    def waiting_urgent(self) -> int:
        return len(self.urgent or ())

    def _urgent_lane(self) -> deque[Any]:
        if self.urgent is None:
            self.urgent = deque()
        return self.urgent

    def refusal(self, message: object) -> ActorStopped | MailboxFull:
        if self.limit == _CLOSED:
            return ActorStopped(self.owner)
        # Who asked gets the message back, not the envelope it was sent in.
        given = message.message if isinstance(message, Question) else message
        return MailboxFull(self.owner, given, capacity=self.capacity)

    def _leave(self, _: object) -> Abort:
        self.reader = None
        return Abort.SUCCEEDED
