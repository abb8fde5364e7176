"""Scripted actor: performs the action in each message and reports each step to the oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import attrs
import trio

from actors import (
    NOT_NOW,
    Actor,
    ActorStopped,
    Ask,
    Ended,
    Exit,
    MailboxFull,
    Pause,
    Ref,
    StopActor,
)

from .internals import cell_of
from .oracle import ActorHistory, Oracle

Action: TypeAlias = Literal[
    "note", "pause", "sleep", "crash", "quit", "hang", "stop", "write", "defer"
]
# The actions that a sender may perform for the actor, because they await nothing.
INSTANT_ACTIONS: tuple[Action, ...] = ("note", "crash", "quit", "stop", "write", "defer")


class PlannedCrash(Exception):
    """A planned crash; `number` is the message that requested it."""

    def __init__(self, number: int | None = None) -> None:
        super().__init__(number)
        self.number = number


@attrs.frozen
class Do:
    """A tell with an action; `to` is the recipient of a `write`."""

    number: int
    action: Action
    urgent: bool = False
    to: Ref | None = None


@attrs.frozen(eq=False)
class Answer(Ask[int]):
    """An ask with an action; the answer is its number."""

    number: int
    action: Action
    urgent: bool = False
    to: Ref | None = None


@attrs.frozen
class Behaviour:
    """Actions of on_start and on_stop; one is drawn at random each time."""

    start: tuple[Action, ...] = ("note",)
    stop: tuple[Action, ...] = ("note",)


GENTLE = Behaviour()
SLOW = Behaviour(start=("note", "pause", "sleep"), stop=("note", "pause", "sleep"))
# Most starts succeed; otherwise no actor would ever run.
MOODY = Behaviour(
    start=("note", "note", "pause", "sleep", "crash"),
    stop=("note", "note", "pause", "sleep", "crash"),
)
# Only for actors that the attack stops: only a stop ends a hang.
STUBBORN = Behaviour(
    start=("note", "pause", "sleep", "crash", "hang", "quit"),
    stop=("note", "pause", "sleep", "crash", "hang"),
)


async def do(action: Action, number: int | None = None) -> None:
    """Perform an action that involves no other actor."""
    match action:
        case "pause":
            await trio.lowlevel.checkpoint()
        case "sleep":
            await trio.sleep(random.choice((0.5, 1.0, 2.0)))
        case "hang":
            await trio.sleep_forever()
        case "crash":
            raise PlannedCrash(number)
        case "quit":
            raise StopActor


class DeferredAnswer(Pause[int]):
    """The pause of a `defer`: it ends some time later, or with the incarnation."""

    def __init__(self, history: ActorHistory, number: int) -> None:
        super().__init__()
        self._history = history
        self._number = number
        trio.lowlevel.spawn_system_task(self._end_later)

    async def _end_later(self) -> None:
        await do(random.choice(("pause", "sleep")))
        if not self.is_over:
            self._history.current = None
            self.end(self._number)

    def drop(self, error: BaseException) -> None:
        self._history.current = None
        self._history.cut_short.add(self._number)
        super().drop(error)


class ScriptedActor(Actor):
    """One incarnation of a scripted actor."""

    def __init__(self, oracle: Oracle, history: ActorHistory, behaviour: Behaviour) -> None:
        self.oracle = oracle
        self.history = history
        self.behaviour = behaviour
        oracle.check_made(history)

    async def on_start(self) -> None:
        self.oracle.check_launch(self.history, self.ref)
        try:
            if self.history.failures_left:
                self.history.failures_left -= 1
                await do("crash")
            await do(random.choice(self.behaviour.start))
        except BaseException as why:
            self.oracle.failed_to_start(self.history, why)
            raise
        self.oracle.record_started(self.history)

    async def receive(self, message: Do | Answer | Ended) -> int | Pause[int] | None:
        if isinstance(message, Ended):
            self.oracle.check_receive(self.history, None, urgent=False)
            self.oracle.check_end_notice(self.history, message)
            return None
        with self._in_hand(message):
            if message.action in INSTANT_ACTIONS:
                answer = self._obey_now(message)
                if message.action == "write":
                    await do(random.choice(("note", "pause")))
                return answer
            await do(message.action, message.number)
        return message.number

    def receive_now(self, message: Do | Answer | Ended) -> object:
        if isinstance(message, Ended) or message.action not in INSTANT_ACTIONS:
            return NOT_NOW
        self.oracle.note(f"{self.history.name} is entered by the sender of {message.number}")
        with self._in_hand(message):
            return self._obey_now(message)

    @contextmanager
    def _in_hand(self, message: Do | Answer) -> Iterator[None]:
        """Record that the message is handled, how that ends, and who ended it."""
        self.oracle.check_receive(self.history, message.number, urgent=message.urgent)
        try:
            yield
        except (PlannedCrash, StopActor) as end:
            self.oracle.record_own_end(self.history, end)
            if isinstance(end, StopActor):
                self.history.cut_short.add(message.number)
            raise
        except trio.Cancelled:
            self.history.cut_short.add(message.number)
            self.oracle.check_interrupt(self.history)
            raise
        finally:
            if message.action != "defer":
                self.history.current = None

    def _obey_now(self, message: Do | Answer) -> int | Pause[int]:
        match message.action:
            case "stop":
                self.history.made_at_most = self.history.made
                self.ref.stop_nowait()
            case "write":
                assert message.to is not None
                write(self.oracle, message.to, "note", sender=self.history)
            case "crash":
                raise PlannedCrash(message.number)
            case "quit":
                raise StopActor
            case "defer":
                return DeferredAnswer(self.history, message.number)
        return message.number

    async def on_stop(self, reason: Exit) -> None:
        self.oracle.check_clean_up(self.history, reason)
        failure: BaseException | None = None
        try:
            await do(random.choice(self.behaviour.stop))
        except BaseException as error:
            failure = error
            raise
        finally:
            self.oracle.record_down(self.history, reason, failure)


def write(
    oracle: Oracle,
    ref: Ref,
    action: Action,
    *,
    urgent: bool = False,
    to: Ref | None = None,
    sender: ActorHistory | None = None,
    may_be_direct: bool = True,
) -> bool:
    """Send a message, perhaps directly; return True if accepted, check the reason of a refusal."""
    cell = cell_of(ref)
    history = oracle.by_cell[cell]
    message = Do(oracle.next_number(), action, urgent=urgent, to=to)
    box = cell.mailbox
    waiting = box.waiting_urgent if urgent else box.waiting
    send = random.choice((ref.tell, ref.deliver)) if may_be_direct else ref.tell
    from_sender = set[int]()
    if sender is not None and not urgent:
        from_sender = history.by_sender.setdefault(sender.name, set())
    history.owed.add(message.number)
    from_sender.add(message.number)
    try:
        send(message, urgent=urgent)
    except MailboxFull as full:
        oracle.check(full.message is message, f"{history.name} returned another message")
        oracle.check(waiting >= box.capacity, f"{history.name} refused with {waiting} waiting")
    except ActorStopped:
        oracle.check(cell.desired_state == "stop", f"{history.name} refused and is not stopping")
    else:
        return True
    history.owed.discard(message.number)
    from_sender.discard(message.number)
    return False
