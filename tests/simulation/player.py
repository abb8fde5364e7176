"""An actor that does as it is told, fails as its temper says, and writes down everything."""

from __future__ import annotations

import random
from typing import Literal, TypeAlias

import attrs
import trio

from actors import Actor, ActorStopped, Ask, Ended, Exit, MailboxFull, Ref, StopActor

from .inside import cell_of
from .ledger import Ledger, Life

Deed: TypeAlias = Literal["note", "pause", "sleep", "crash", "quit", "hang", "stop", "write"]


class Boom(Exception):
    """A crash on purpose; `number` is the message that asked for it."""

    def __init__(self, number: int | None = None) -> None:
        super().__init__(number)
        self.number = number


@attrs.frozen
class Do:
    """Told: do this. `to` is whom to write to."""

    number: int
    deed: Deed
    urgent: bool = False
    to: Ref | None = None


@attrs.frozen(eq=False)
class Answer(Ask[int]):
    """Asked: do this, and answer with your number."""

    number: int
    deed: Deed
    urgent: bool = False
    to: Ref | None = None


@attrs.frozen
class Temper:
    """What may happen in on_start and on_stop: one of these, drawn each time."""

    start: tuple[Deed, ...] = ("note",)
    stop: tuple[Deed, ...] = ("note",)


GENTLE = Temper()
SLOW = Temper(start=("note", "pause", "sleep"), stop=("note", "pause", "sleep"))
# More often well than not, or nothing would ever be up.
MOODY = Temper(
    start=("note", "note", "pause", "sleep", "crash"),
    stop=("note", "note", "pause", "sleep", "crash"),
)
# Only for those whom somebody will stop: nothing else ends a hang.
STUBBORN = Temper(
    start=("note", "pause", "sleep", "crash", "hang", "quit"),
    stop=("note", "pause", "sleep", "crash", "hang"),
)


async def do(deed: Deed, number: int | None = None) -> None:
    """One deed that needs nobody else."""
    match deed:
        case "pause":
            await trio.lowlevel.checkpoint()
        case "sleep":
            await trio.sleep(random.choice((0.5, 1.0, 2.0)))
        case "hang":
            await trio.sleep_forever()
        case "crash":
            raise Boom(number)
        case "quit":
            raise StopActor


class Player(Actor):
    """One incarnation of one life."""

    def __init__(self, ledger: Ledger, life: Life, temper: Temper) -> None:
        self.ledger = ledger
        self.life = life
        self.temper = temper
        ledger.was_made(life)

    async def on_start(self) -> None:
        self.ledger.begins(self.life, self.ref)
        try:
            if self.life.failures_ahead:
                self.life.failures_ahead -= 1
                await do("crash")
            await do(random.choice(self.temper.start))
        except BaseException as why:
            self.ledger.failed_to_start(self.life, why)
            raise
        self.ledger.is_up(self.life)

    async def receive(self, message: Do | Answer | Ended) -> int | None:
        if isinstance(message, Ended):
            self.ledger.receives(self.life, None, urgent=False)
            self.ledger.hears_of_end(self.life, message)
            return None
        self.ledger.receives(self.life, message.number, urgent=message.urgent)
        try:
            await self._obey(message)
        except (Boom, StopActor) as end:
            self.ledger.ends_itself(self.life, end)
            if isinstance(end, StopActor):
                self.life.cut_short.add(message.number)
            raise
        except trio.Cancelled:
            self.life.cut_short.add(message.number)
            self.ledger.is_interrupted(self.life)
            raise
        finally:
            self.life.in_hand = None
        return message.number

    async def _obey(self, message: Do | Answer) -> None:
        if message.deed == "stop":
            self.life.made_at_most = self.life.made
            self.ref.stop_nowait()
        elif message.deed == "write":
            assert message.to is not None
            write(self.ledger, message.to, "note", sender=self.life)
            await do(random.choice(("note", "pause")))
        else:
            await do(message.deed, message.number)

    async def on_stop(self, reason: Exit) -> None:
        self.ledger.cleans_up(self.life, reason)
        failure: BaseException | None = None
        try:
            await do(random.choice(self.temper.stop))
        except BaseException as error:
            failure = error
            raise
        finally:
            self.ledger.is_down(self.life, reason, failure)


def write(
    ledger: Ledger,
    ref: Ref,
    deed: Deed,
    *,
    urgent: bool = False,
    to: Ref | None = None,
    sender: Life | None = None,
) -> bool:
    """Tell, and hold the mailbox to its word: taken in, or refused for a true reason."""
    cell = cell_of(ref)
    life = ledger.by_cell[cell]
    message = Do(ledger.next_number(), deed, urgent=urgent, to=to)
    box = cell.mailbox
    waiting = box.waiting_urgent if urgent else box.waiting
    try:
        ref.tell(message, urgent=urgent)
    except MailboxFull as full:
        ledger.check(full.message is message, f"{life.name} gave another message back")
        ledger.check(waiting >= box.capacity, f"{life.name} refused with {waiting} waiting")
        return False
    except ActorStopped:
        ledger.check(cell.wanted == "stop", f"{life.name} refused and is not stopping")
        return False
    life.owed.add(message.number)
    if sender is not None and not urgent:
        life.from_whom.setdefault(sender.name, set()).add(message.number)
    return True
