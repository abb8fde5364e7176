"""Messages that are handled in the task of their sender, because their actor has nothing to do.

Rule 1: only while the task of the actor waits at its empty mailbox; so no message is overtaken, and
        an actor that stops, restarts or is cancelled is never entered.
Rule 2: one actor of a system at a time. A message that is sent meanwhile goes into a mailbox, so
        senders never nest, however long the chain of actors is.
Rule 3: an exception is raised in the task of the actor, never in the sender.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import outcome
from trio.lowlevel import current_task, reschedule

from ._mailbox import Mailbox
from ._message import NOT_NOW, Question


class DirectReceiver(Protocol):
    """The part of an actor that a direct delivery uses."""

    def receive_now(self, message: Any) -> Any: ...


class Enterable(Protocol):
    """The part of an actor's runtime that a direct delivery uses."""

    mailbox: Mailbox
    handled: int

    @property
    def actor(self) -> DirectReceiver | None: ...
    def settle(self, question: Question | None, answer: object) -> bool: ...
    def failure_of(self, error: BaseException) -> BaseException: ...
    def resume(self, error: BaseException | None, *, was_cancelled: bool = False) -> None: ...
    def drop_pause(self) -> None: ...


class DirectDelivery:
    """The direct deliveries of one actor system."""

    __slots__ = ("_entered", "_raise_cancel", "is_enabled")

    def __init__(self, *, is_enabled: bool) -> None:
        # False if a simulation wants the schedule to choose when each message is handled.
        self.is_enabled = is_enabled
        # Invariant: the actor whose message a sender handles at this moment. Its task waits, and
        # its mailbox has no reader.
        self._entered: Enterable | None = None
        # Set if the task of that actor was cancelled meanwhile, to be raised in it.
        self._raise_cancel: Callable[[], Any] | None = None

    def deliver(self, cell: Enterable, message: object, *, urgent: bool) -> None:
        """Let the actor handle the message now if it waits for one; else put it into the mailbox.

        Raise as `Mailbox.put` does.
        """
        mailbox, actor = cell.mailbox, cell.actor
        task = mailbox.reader
        if task is None or actor is None or self._entered is not None or not self.is_enabled:
            mailbox.put(message, urgent=urgent)
            return
        current_task()  # raises in a foreign thread, before anything has changed
        question = message if isinstance(message, Question) else None
        content = message if question is None else question.message
        self._entered, mailbox.reader = cell, None
        cell.handled += 1
        try:
            # In the context of the actor's task, as `receive`.
            answer = task.context.run(actor.receive_now, content)
            is_paused = answer is not NOT_NOW and cell.settle(question, answer)
        except BaseException as error:  # noqa: BLE001 - rule 3
            if question is not None:
                question.fail(cell.failure_of(error))
            self._entered = self._raise_cancel = None
            cell.resume(error)
            return
        self._entered = None
        raise_cancel, self._raise_cancel = self._raise_cancel, None
        if not is_paused:
            cell.resume(None, was_cancelled=raise_cancel is not None)
        elif raise_cancel is not None:
            cell.drop_pause()
            reschedule(task, outcome.capture(raise_cancel))
        if answer is NOT_NOW:
            cell.handled -= 1  # it will be
            mailbox.put(message, urgent=urgent)

    def postpone_cancel(self, cell: Enterable, raise_cancel: Callable[[], Any]) -> bool:
        """Return True if the actor is entered: then its task is cancelled after the delivery."""
        if self._entered is not cell:
            return False
        self._raise_cancel = raise_cancel
        return True
