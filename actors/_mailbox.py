"""The mailbox: two bounded lanes and one reader.

Rule 1: nothing here awaits. The actor's task parks itself, and a message stays here until the task
        takes it, so a cancelled reader loses none.
Rule 2: a full lane refuses and returns the message; a closed mailbox refuses.
Rule 3: closing returns all queued messages in the same step, so no message goes unanswered.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import trio
from trio.lowlevel import reschedule

from ._errors import ActorStopped, MailboxFull
from ._message import Question


class Empty:
    """The type of `EMPTY`: the mailbox is empty (None is a valid message)."""


EMPTY: Final = Empty()
_CLOSED: Final = -1


class Mailbox:
    """The messages for one actor; it outlives incarnations and is closed when the actor ends."""

    __slots__ = ("capacity", "limit", "ordinary", "owner", "reader", "urgent")

    def __init__(self, owner: str, capacity: int) -> None:
        self.owner = owner
        self.capacity = capacity
        # Invariant: `limit` is the capacity while open and _CLOSED afterwards; so a single
        # comparison in `put` answers both "full?" and "closed?".
        self.limit = capacity
        self.ordinary: deque[Any] = deque()
        # An empty deque takes more than half a KiB and most actors never get anything urgent,
        # so this lane is created on first use.
        self.urgent: deque[Any] | None = None
        # Invariant: the actor's task while it waits for messages, from parking until it is woken or
        # cancelled or the actor is entered by a sender; while it is set, both lanes are empty. A
        # RepeatedEvent of trio-util takes twice as long for a wake-up (6.0 us instead of 3.0) and
        # 1.8 KB for each actor.
        self.reader: trio.lowlevel.Task | None = None

    def put(self, message: object, *, urgent: bool = False) -> None:
        """Add the message.

        Raise `MailboxFull` if its lane is full, `ActorStopped` if it is closed.
        """
        lane = self._urgent_lane() if urgent else self.ordinary
        if len(lane) >= self.limit:
            raise self.refusal(message)
        self.wake()
        lane.append(message)

    def put_reserved(self, message: object) -> None:
        """Add a notification of a watched end, which has a reserved slot.

        It comes after all messages that the ended actor sent before, and may exceed the capacity by
        at most one per watch. A closed mailbox ignores it.
        """
        if self.limit == _CLOSED:
            return
        self.ordinary.append(message)
        self.wake()

    def take(self) -> Any:
        """Return the next message, urgent ones first, or EMPTY."""
        if self.urgent:
            return self.urgent.popleft()
        if self.ordinary:
            return self.ordinary.popleft()
        return EMPTY

    def park(self, reader: trio.lowlevel.Task) -> None:
        """Let the next message wake the reader, which waits; the mailbox is empty."""
        self.reader = reader
        self.urgent = None  # an empty deque takes 600 bytes

    def wake(self) -> None:
        """Wake the reader, if it waits."""
        reader = self.reader
        if reader is not None:
            reschedule(reader)  # raises in a foreign thread, before anything has changed
            self.reader = None

    def close(self) -> list[Any]:
        """Refuse messages from now on and return the queued ones, urgent first.

        A second call returns an empty list.
        """
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
        # The asker gets its message back, not the envelope.
        content = message.message if isinstance(message, Question) else message
        return MailboxFull(self.owner, content, capacity=self.capacity)
