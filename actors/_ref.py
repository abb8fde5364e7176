"""The handle on an actor: what everybody else holds, and all they may do.

A `Ref` outlives restarts. It stays valid, and useless, when the actor has ended for good.

Ctrl-C may strike between any two instructions, but not inside these methods: half a `tell` would
be a message that nobody ever wakes up for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import trio
from trio.lowlevel import (
    checkpoint_if_cancelled,
    current_task,
    enable_ki_protection,
    wait_task_rescheduled,
)

from ._errors import AskSelf, BadSpec
from ._message import Ask, Question

if TYPE_CHECKING:
    from ._cell import Cell
    from ._child import Child, State
    from ._group import Group
    from ._restart import Exit

Answer = TypeVar("Answer")


@attrs.frozen
class Statistics:
    """What an actor was doing at one instant.

    `waiting` and `waiting_urgent` messages are in the mailbox, `handled` were taken out of it
    by any incarnation, `lost` were inside when it closed for good.
    """

    name: str
    state: State
    waiting: int
    waiting_urgent: int
    capacity: int
    handled: int
    lost: int
    restarts: int


class Ref:
    """Send to an actor, stop it, wait for it, watch others on its behalf."""

    __slots__ = ("__weakref__", "_child", "_mailbox", "name")

    def __init__(self, cell: Cell) -> None:
        self.name = cell.name
        self._child = cell
        self._mailbox = cell.mailbox

    def __repr__(self) -> str:
        return f"<Ref {self.name!r} {self._child.state}>"

    @enable_ki_protection
    def tell(self, message: Any, *, urgent: bool = False) -> None:
        """Put a message into the mailbox; never waits.

        Urgent messages overtake ordinary ones; each lane has room for `capacity`. Raises
        `MailboxFull`, which carries the message, or `ActorStopped`. To be called in trio's
        own thread; from another one, `trio.from_thread.run_sync(ref.tell, message)`.
        """
        mailbox = self._mailbox
        if urgent:
            mailbox.put(message, urgent=True)
            return
        # The ordinary case of Mailbox.put, written out: a call costs a fifth of a tell.
        if len(mailbox.ordinary) >= mailbox.limit:
            raise mailbox.refusal(message)
        if mailbox.reader is not None:
            mailbox.wake()
        mailbox.ordinary.append(message)

    @enable_ki_protection
    async def ask(
        self, message: Ask[Answer], *, timeout_seconds: float = 5.0, urgent: bool = False
    ) -> Answer:
        """Send a question and wait for its answer.

        Raises what `receive` raised; `AskTimeout` after `timeout_seconds` (`math.inf` waits
        for ever); `ActorStopped` at once if the actor is stopping or over, or when it ends
        before it answered; `MailboxFull`; `AskSelf` at once when an actor asks itself.
        If cancelled before the message is sent, it is not sent. If cancelled later the
        message may still be handled, and its answer is dropped.
        """
        deadline = _deadline(timeout_seconds)
        if not isinstance(message, Ask):
            raise BadSpec(
                "message",
                f"{type(message).__name__} is no question",
                hint="derive it from actors.Ask[...], or use tell()",
            )
        await checkpoint_if_cancelled()
        asker = current_task()
        cell = self._child
        # An actor that is parked at its mailbox is not in the middle of asking itself.
        if self._mailbox.reader is None and cell.runs_in(asker):
            raise AskSelf(self.name, verb="ask", instead="call the method directly, or tell()")
        question = Question(message, asker)
        self._mailbox.put(question, urgent=urgent)
        if deadline != math.inf:
            cell.house.timeouts.add(question, self.name, timeout_seconds, deadline)
        answer: Answer = await wait_task_rescheduled(question.abandon)
        return answer

    @enable_ki_protection
    def stop_nowait(self) -> None:
        """Begin to stop it and return at once; an actor may do this to itself.

        The mailbox closes now: the asks inside fail with `ActorStopped`, and what was only
        told is dropped and counted as `lost`. The message in hand and `on_stop` get
        `shutdown_seconds` together, then they are cancelled. Stopping twice, or something
        that is over, is fine.
        """
        self._child.request_stop()

    @enable_ki_protection
    async def stop(self) -> None:
        """`stop_nowait`, and wait until it has ended. Giving up the wait does not undo the stop."""
        self._child.refuse_self("stop", "raise actors.StopActor, or use stop_nowait()")
        await checkpoint_if_cancelled()
        self._child.request_stop()
        await self._child.wait_over()

    @enable_ki_protection
    async def wait_stopped(self) -> Exit:
        """Wait until it has ended for good, and say how: Finished, Stopped, Killed, Crashed.

        Restarts in between do not count as an end. Raises `GaveUp` if it was given up.
        """
        self._child.refuse_self("wait for", "watch() it, or wait somewhere else")
        return await self._child.wait_stopped()

    @enable_ki_protection
    def watch(self, other: Ref | Group) -> None:
        """Have this actor told `Ended` when `other` has ended for good; at once if it has.

        The news comes exactly once, after everything `other` sent before, and needs no room
        in the mailbox. Watching twice is watching once (but one that is over tells
        each time), and a watch survives restarts of both sides. Raises `ActorStopped` if this
        actor is itself stopping or over.
        """
        self._child.watch(child_of(other))

    @enable_ki_protection
    def unwatch(self, other: Ref | Group) -> None:
        """Take a watch back. News already in the mailbox stays there."""
        self._child.unwatch(child_of(other))

    def statistics(self) -> Statistics:
        """A frozen picture of this instant."""
        cell, mailbox = self._child, self._mailbox
        return Statistics(
            name=self.name,
            state=cell.state,
            waiting=mailbox.waiting,
            waiting_urgent=mailbox.waiting_urgent,
            capacity=mailbox.capacity,
            handled=cell.handled,
            lost=cell.lost,
            restarts=cell.restarts,
        )


def _deadline(timeout_seconds: float) -> float:
    if timeout_seconds == math.inf:
        return math.inf
    now = trio.current_time()
    try:
        deadline = now + timeout_seconds
    except (TypeError, OverflowError):
        deadline = -math.inf
    if not deadline >= now:
        raise BadSpec(
            "timeout_seconds",
            f"{timeout_seconds!r} is not a number of at least 0",
            hint="give the seconds to wait, or math.inf",
        )
    return deadline


def child_of(handle: Ref | Group) -> Child:
    """The supervised child behind a public handle."""
    if not hasattr(handle, "_child"):
        raise BadSpec("other", f"{handle!r} cannot be watched", hint="give a Ref or a Group")
    return handle._child  # noqa: SLF001 - Ref and Group are the two faces of a Child
