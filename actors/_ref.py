"""The public handle on an actor.

A `Ref` outlives restarts. It stays valid when the actor has ended for good, but then refuses
messages.

Ctrl-C may arrive between any two instructions, but is deferred inside these methods: half a `tell`
would be a message without a wake-up.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, TypeVar

import attrs
import trio
from trio.lowlevel import (
    checkpoint_if_cancelled,
    current_task,
    enable_ki_protection,
    wait_task_rescheduled,
)

from ._context import SystemContext
from ._direct import Enterable
from ._errors import AskSelf, BadSpec
from ._handle import Handle, State, Watched, Watcher
from ._message import Ask, Question
from ._restart import Exit

Answer = TypeVar("Answer")


@attrs.frozen
class Statistics:
    """The state and counters of an actor at one instant.

    `waiting` and `waiting_urgent` messages are in the mailbox, `handled` were taken out of it by
    any incarnation, `lost` were in the mailbox when it closed for good.
    """

    name: str
    state: State
    waiting: int
    waiting_urgent: int
    capacity: int
    handled: int
    lost: int
    restarts: int


class ActorControl(Watched, Watcher, Enterable, Protocol):
    """The part of an actor's runtime that its `Ref` uses."""

    name: str
    state: State
    context: SystemContext
    lost: int

    @property
    def restarts(self) -> int: ...
    def runs_in(self, task: trio.lowlevel.Task) -> bool: ...
    def refuse_own_task(self, verb: str, instead: str) -> None: ...
    def request_stop(self, *, grace_seconds: float = math.inf) -> None: ...
    async def wait_ended(self) -> None: ...
    async def wait_stopped(self) -> Exit: ...
    def watch(self, other: Watched) -> None: ...
    def unwatch(self, other: Watched) -> None: ...


class Ref(Handle):
    """Handle on an actor: send to it, stop it, wait for it, let it watch others."""

    __slots__ = ("_mailbox",)

    _child: ActorControl

    def __init__(self, cell: ActorControl) -> None:
        self.name = cell.name
        self._child = cell
        self._mailbox = cell.mailbox

    def __repr__(self) -> str:
        return f"<Ref {self.name!r} {self._child.state}>"

    @enable_ki_protection
    def tell(self, message: Any, *, urgent: bool = False) -> None:
        """Put a message into the mailbox; never wait.

        Urgent messages overtake ordinary ones; each lane has room for `capacity` messages. Raise
        `MailboxFull`, which carries the message, if the lane is full, or `ActorStopped` if the
        actor is stopping or has ended. Call it in trio's own thread; from another thread use
        `trio.from_thread.run_sync(ref.tell, message)`.
        """
        mailbox = self._mailbox
        if urgent:
            mailbox.put(message, urgent=True)
            return
        # The ordinary case of Mailbox.put, inlined: a call costs a fifth of a tell.
        if len(mailbox.ordinary) >= mailbox.limit:
            raise mailbox.refusal(message)
        if mailbox.reader is not None:
            mailbox.wake()
        mailbox.ordinary.append(message)

    @enable_ki_protection
    def deliver(self, message: Any, *, urgent: bool = False) -> None:
        """Let the actor handle the message before this returns, if it waits for messages now.

        That saves the switch to the actor's task. `Actor.receive_now` handles the message, in this
        task. If the actor is busy or its `receive_now` declines, this is `tell`, and it raises as
        `tell` does. The order of messages is the same in both cases.
        """
        cell = self._child
        cell.context.direct.deliver(cell, message, urgent=urgent)

    @enable_ki_protection
    async def ask(
        self, message: Ask[Answer], *, timeout_seconds: float = 5.0, urgent: bool = False
    ) -> Answer:
        """Send a question and return its answer.

        Raise the exception that `receive` raised; `AskTimeout` after `timeout_seconds` (`math.inf`:
        never); `ActorStopped` at once if the actor is stopping or has ended, or when it ends before
        it answered; `MailboxFull` if the lane is full; `AskSelf` at once when an actor asks itself.
        If cancelled before the message is sent, it is not sent. If cancelled later the message may
        still be handled, and its answer is dropped.
        """
        # Most asks of sessions and of the writer have no time-out: that costs no call.
        deadline = math.inf if timeout_seconds == math.inf else _deadline(timeout_seconds)
        if not isinstance(message, Ask):
            raise BadSpec(
                "message",
                f"{type(message).__name__} is not an Ask",
                hint="derive it from actors.Ask[...], or use tell()",
            )
        await checkpoint_if_cancelled()
        asker = current_task()
        cell = self._child
        # An actor that is parked at its mailbox is not asking itself.
        if self._mailbox.reader is None and cell.runs_in(asker):
            raise AskSelf(self.name, verb="ask", instead="call the method directly, or tell()")
        question = Question(message, asker)
        self._mailbox.put(question, urgent=urgent)
        if deadline != math.inf:
            cell.context.timeouts.add(question, self.name, timeout_seconds, deadline)
        answer: Answer = await wait_task_rescheduled(question.abandon)
        return answer

    @enable_ki_protection
    def stop_nowait(self, *, within_seconds: float = math.inf) -> None:
        """Request the stop of the actor and return at once; an actor may stop itself this way.

        The mailbox closes now: the queued asks fail with `ActorStopped`, and told messages are
        dropped and counted as `lost`. The message in hand and `on_stop` get `shutdown_seconds`
        together, or `within_seconds` if that is less; then they are cancelled. A repeated stop can
        only shorten that time.
        """
        self._child.request_stop(grace_seconds=within_seconds)

    @enable_ki_protection
    async def stop(self) -> None:
        """Stop the actor and wait until it has ended. Cancelling the wait keeps the stop."""
        self._child.refuse_own_task("stop", "raise actors.StopActor, or use stop_nowait()")
        await checkpoint_if_cancelled()
        self._child.request_stop()
        await self._child.wait_ended()

    @enable_ki_protection
    async def wait_stopped(self) -> Exit:
        """Wait until the actor has ended for good; return Finished, Stopped, Killed or Crashed.

        Restarts in between do not count as an end. Raise `GaveUp` if the actor was given up.
        """
        self._child.refuse_own_task("wait for", "watch() it, or wait somewhere else")
        return await self._child.wait_stopped()

    @enable_ki_protection
    def watch(self, other: Handle) -> None:
        """Send `Ended` to this actor when `other` has ended for good; at once if it has.

        The notification arrives exactly once, after everything `other` sent before, and needs no
        room in the mailbox. A second watch of the same actor has no effect (but each watch of an
        ended actor notifies), and a watch survives restarts of both sides. Raise `ActorStopped` if
        this actor is itself stopping or has ended.
        """
        self._child.watch(_watched(other))

    @enable_ki_protection
    def unwatch(self, other: Handle) -> None:
        """Remove a watch. A notification already in the mailbox stays there."""
        self._child.unwatch(_watched(other))

    def statistics(self) -> Statistics:
        """Return a frozen record of the current numbers."""
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
    now = trio.current_time()
    try:
        deadline = now + timeout_seconds
    except (TypeError, OverflowError):
        deadline = -math.inf
    if not deadline >= now:
        raise BadSpec(
            "timeout_seconds",
            f"{timeout_seconds!r} is not a number of at least 0",
            hint="pass the seconds to wait, or math.inf",
        )
    return deadline


def _watched(handle: Handle) -> Watched:
    if not isinstance(handle, Handle):
        raise BadSpec("other", f"{handle!r} cannot be watched", hint="pass a Ref or a Group")
    return handle._child  # noqa: SLF001 - Ref and Group are the handles of a Child
