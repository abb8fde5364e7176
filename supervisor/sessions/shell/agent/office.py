"""What a driver sees of its session; see `drivers.port.Office`."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.errors import BudgetSpent, PermissionDenied, shown
from supervisor.core.ids import CallId, RequestId, SessionId, TurnId
from supervisor.core.limits import Ladder
from supervisor.core.permissions import Permissions
from supervisor.core.session import Decision, Usage
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import Child, ChildRequest, News, Stamp, TextKind, Turn
from supervisor.sessions.shell.past import past_of
from supervisor.store.port import Process
from supervisor.store.writer import ForgetProcess, NoteProcess

from .below import answer_below, news_of, requests_below

if TYPE_CHECKING:
    from supervisor.sessions.shell.actor import SessionActor

# News that the agent gets on with it.
_PROGRESS = (
    ev.CallStarted,
    ev.CallEnded,
    ev.UsageReported,
    ev.SteeringTaken,
    ev.SteeringBeganTurn,
    ev.PermissionAsked,
    ev.AuthenticationAsked,
)
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

    @property
    def ladder(self) -> Ladder:
        return self._actor.session.terms.ladder

    @property
    def agent_session_id(self) -> str | None:
        remembered = self._actor.session.remembered
        return None if remembered is None else remembered.session_id

    @property
    def agent_session_cost(self) -> float:
        session = self._actor.session
        before = session.remembered.cost_before if session.remembered is not None else None
        return session.usage.cost - (before or 0.0)

    async def note_process(self, identity: ProcessIdentity) -> None:
        noted = NoteProcess(self._process(identity))
        await self._actor.seat.house.writer.ask(noted, timeout_seconds=math.inf)

    def forget_process(self, identity: ProcessIdentity) -> None:
        # If nobody is there to hear it, it is found dead at the next start.
        with contextlib.suppress(ActorStopped, MailboxFull):
            self._actor.seat.house.writer.tell(ForgetProcess(self._process(identity)))

    def _process(self, identity: ProcessIdentity) -> Process:
        return Process(self.session_id, identity.pid, identity.start_time, identity.boot_id)

    def stamp(self) -> Stamp:
        return self._actor.seat.house.stamp()

    def new_id(self, prefix: str) -> str:
        return self._actor.seat.house.ids.new(prefix)

    def report(self, event: ev.Event) -> bool:
        return self._backlog is None and self._tell(event)

    def _tell(self, event: ev.Event) -> bool:
        if isinstance(event, _PROGRESS):
            self._actor.seat.progressed()
        elif type(event) is ev.TurnEnded:
            self._actor.seat.note_end_of_turn()
        elif type(event) is ev.AgentExited:
            self._actor.seat.note_end_of_turn()
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
                seat.house.lines.tell_next(seat.id, event)
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
        self._actor.seat.progressed()
        self._actor.write_soon()

    def write(
        self, turn: TurnId, kind: Literal["tool_update", "plan", "warning"], body: Mapping[str, Any]
    ) -> None:
        self._actor.log.add(turn, kind, body, self._now())
        self._actor.seat.progressed()
        self._actor.write_soon()

    def said(self, turn: TurnId) -> str:
        return self._actor.log.said_so_far(turn)

    def charge(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        self._actor.log.charge(turn, body)

    @property
    def has_room(self) -> bool:
        return self._actor.log.has_room

    async def wait_for_room(self) -> None:
        await self._actor.log.wait_for_room()

    async def history(self, turn: TurnId) -> Sequence[Message]:
        seat = self._actor.seat
        if seat.past is None:
            seat.past = await past_of(seat.house, seat.id)
        return seat.past.before(turn)

    async def before_call(
        self, turn: TurnId, call: CallId, name: str, given: Mapping[str, Any] | None
    ) -> None:
        await self._actor.seat.house.gates.calling(self.session_id, turn, call, name, given)

    async def before_request(
        self, turn: TurnId, request: RequestId, asked: Mapping[str, Any]
    ) -> str | None:
        gates = self._actor.seat.house.gates
        return await gates.asking(self.session_id, turn, request, asked)

    # Those below the session -------------------------------------------------------------

    def spend(self, turn: TurnId, usage: Usage) -> None:
        purse = self._actor.seat.house.desk.purse
        spent = purse.what_is_spent(self.session_id)
        if spent is not None:
            raise BudgetSpent(
                f"session {self.session_id} has nothing left to spend: {spent}",
                hint="the turn is being interrupted for that; return from the agent's function",
                limit=spent.limit,
                used=spent.used,
                allowed=spent.allowed,
            )
        purse.spend(self.session_id, turn, usage)

    async def spawn(self, turn: Turn, agent: str, text: str, **options: Any) -> Child:  # noqa: ANN401
        house = self._actor.seat.house
        parent = house.handle(self.session_id, caller=self.session_id, turn=turn.id)
        return house.child((await parent.spawn(agent, text, **options)).id, self.session_id, turn)

    async def descendant(self, turn: Turn, session_id: str) -> Child:
        await trio.lowlevel.checkpoint()
        house = self._actor.seat.house
        if not house.desk.is_below(session_id, self.session_id):
            raise PermissionDenied(
                f"{shown(session_id)} is not below session {self.session_id}",
                hint="an agent may only reach sessions that it, or one below it, has spawned",
            )
        return house.child(SessionId(session_id), self.session_id, turn)

    async def load_news(self) -> None:
        await self._actor.seat.load_news()

    def news(self, turn: TurnId) -> list[News]:
        seat = self._actor.seat
        unread = seat.unread
        if not unread:
            return []
        read = seat.news_read + len(unread)
        if not self.report(ev.NewsTaken(turn=turn, read=read, **self.stamp())):
            return []  # the session has no room for that, so they stay for the next time
        seat.news_read, seat.unread = read, []
        return [news_of(record) for record in unread]

    def requests(self) -> list[ChildRequest]:
        return requests_below(self._actor.seat.house, self._actor.session)

    async def answer_request(self, request_id: str, decision: Decision) -> None:
        await answer_below(self._actor.seat.house, self._actor.session, request_id, decision)

    def _now(self) -> float:
        return self._actor.seat.house.clock.now()
