"""What a driver sees of its session; see `drivers.port.Office`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.permissions import Permissions
from supervisor.drivers.port import Stamp, TextKind

from .past import Past

if TYPE_CHECKING:
    from .actor import SessionActor

# How long to wait before looking again whether a full mailbox has room.
_RETRY_SECONDS = 0.01


@attrs.frozen(eq=False)
class Reported:
    """News from a driver, and from which: only the one that the session has now is listened to."""

    office: Office
    event: ev.Event


class Office:
    """One for each agent that a session brings up."""

    __slots__ = ("_actor", "_backlog", "_ref", "is_closed")

    def __init__(self, actor: SessionActor, ref: Ref) -> None:
        self._actor = actor
        self._ref = ref
        # What the session had no room for, in order; a task is at it exactly while there is some.
        self._backlog: list[ev.Event] | None = None
        # Set when the session has let this agent go; of what comes later only ends are news.
        self.is_closed = False

    def reports_to(self, actor: SessionActor) -> bool:
        """Whether it is of this incarnation, and not of one before."""
        return self._actor is actor

    @property
    def session_id(self) -> SessionId:
        return self._actor.seat.id

    @property
    def workspace(self) -> str | None:
        return self._actor.session.workspace

    @property
    def permissions(self) -> Permissions:
        return self._actor.session.permissions

    def stamp(self) -> Stamp:
        return self._actor.seat.house.stamp()

    def new_id(self, prefix: str) -> str:
        return self._actor.seat.house.ids.new(prefix)

    def report(self, event: ev.Event) -> bool:
        return self._backlog is None and self._tell(event)

    def _tell(self, event: ev.Event) -> bool:
        if type(event) is ev.AgentExited:
            event = attrs.evolve(event, jitter=random.random())  # noqa: S311 - to spread restarts
        try:
            # Urgent: callers who fill the mailbox must not keep an agent's news out.
            self._ref.tell(Reported(self, event), urgent=True)
            self._actor.log.hold()
        except MailboxFull:
            return False
        except ActorStopped:
            # Nobody wants to know any more; but that a task has ended at last, the next one does.
            if type(event) is ev.ZombieEnded:
                seat = self._actor.seat
                seat.house.tree.tell_next(seat.id, event)
        return True

    async def report_soon(self, event: ev.Event) -> None:
        while not self.report(event):  # noqa: ASYNC110 - a mailbox that is full is rare
            await trio.sleep(_RETRY_SECONDS)
        await trio.lowlevel.checkpoint()

    def report_surely(self, event: ev.Event) -> None:
        if self._backlog is not None:
            self._backlog.append(event)
        elif not self._tell(event):
            self._backlog = [event]
            self._actor.seat.house.workshop.start_soon(self._work_off)

    async def _work_off(self) -> None:
        while self._backlog:
            if self._tell(self._backlog[0]):
                del self._backlog[0]
            else:
                await trio.sleep(_RETRY_SECONDS)
        self._backlog = None

    def write_text(
        self, turn: TurnId, kind: TextKind, text: str, *, continues: bool = True
    ) -> None:
        self._actor.log.add_text(turn, kind, text, self._now(), continues=continues)
        self._actor.write_soon()

    def write(
        self, turn: TurnId, kind: Literal["tool_update", "plan", "warning"], body: Mapping[str, Any]
    ) -> None:
        self._actor.log.add(turn, kind, body, self._now())
        self._actor.write_soon()

    def said(self, turn: TurnId) -> str:
        return self._actor.log.said_so_far(turn)

    def charge(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        self._actor.log.charge(turn, body)

    async def wait_for_room(self) -> None:
        await self._actor.log.wait_for_room()

    async def history(self, turn: TurnId) -> Sequence[Message]:
        seat = self._actor.seat
        if seat.past is None:
            past = Past()
            for record in await seat.house.tree.all_records(seat.id):
                past.take(record)
            seat.past = past
        return seat.past.before(turn)

    def _now(self) -> float:
        return self._actor.seat.house.clock.now()
