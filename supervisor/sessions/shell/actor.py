"""The shell of one session: decide, commit, adopt, perform.

Rule 1: nothing leaves before its commit is durable: no record, no reply, no effect. Only what
        brakes does, while the store is degraded; see `ahead`.
Rule 2: what is decided here is nothing. Any `if` about a session's life belongs into the core.
Rule 3: if it is not known whether a commit happened, this incarnation ends, and the next one
        claims the row and goes on from what is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias

import attrs
import trio

from actors import Actor, ActorStopped, Later, MailboxFull, StopActor
from supervisor.core import effects as do
from supervisor.core import events as ev
from supervisor.core.brakes import is_brake
from supervisor.core.errors import Fenced, StoreDegraded, SupervisorError
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record
from supervisor.core.said import said_in
from supervisor.core.session import Phase, Session
from supervisor.core.step import Accepted, Refused, Reply, Step
from supervisor.core.table import decide
from supervisor.core.tree.situation import ALONE
from supervisor.sessions.desk.bell import LOOK
from supervisor.sessions.refusals import not_found, not_now, problem_of_agent
from supervisor.store.port import Kept, Write
from supervisor.store.writer import Claim, Commit
from supervisor.store.writer.held import Held

from .agent.office import Reported
from .agent.staff import Staff
from .ahead import Ahead, Doing
from .log import Log
from .perform import perform
from .repeats import Idempotency, Request, kept_receipt, known_answer
from .reports import CaughtUp, NotWritten
from .seat import Seat
from .watch.alarms import Alarms
from .watch.liveness import notice, seconds_until_next_look
from .watch.ringing import meaning_of

_RETRY_SECONDS = 0.05

# An answer, one that is still owed, or none.
_Reply: TypeAlias = Reply | Later[Reply] | None


class _Rest:
    """Told to oneself: look whether there is anything left to do."""


REST: Final = _Rest()
NOTHING_MORE: Final[Mapping[str, Any]] = {}
REST_AFTER_SECONDS: Final = 1.0


class SessionActor(Actor):
    """One incarnation. What outlives it is in the seat, and in the store."""

    session: Session
    log: Log

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self._house = seat.house
        self.epoch = 0
        self.staff = Staff(self)
        # Whether a commit is under way, or has ended in such a way that nobody knows how: then what
        # it takes is taken until the next incarnation has read the row.
        self._is_in_doubt = False
        # Since the store was first degraded; what was decided since may not be written yet.
        self._ahead: Ahead | None = None
        self.alarms = Alarms(self)

    async def on_start(self) -> None:
        stored = await self._house.writer.ask(Claim(self.seat.id), timeout_seconds=math.inf)
        if stored is None:
            raise not_found(self.seat.id)
        self.session = stored.row
        self._house.desk.settle(stored.row)
        self.epoch = stored.epoch
        self.log = Log(self.seat, stored.last_seq)
        await self._publish_what_is_left(stored.last_seq)
        self._house.inbox.forget_others(stored.row)
        self.seat.log = self.log
        if self.seat.session is None:
            self.seat.session = stored.row  # so that it is known what the claim changes
        if self._house.tree.is_leaving:
            # Said first: what it would begin now could not end.
            await self._take(ev.LeaveRequested(**self._house.stamp()))
        if self._house.desk.has_lost_its_parent(stored.row):
            # As above: whoever orders that may come after its agent.
            await self._take(ev.StopRequested(cause="parent_stopped", **self._house.stamp()))
        turn = stored.row.turn
        said = ev.Said()
        if turn is not None:
            spoken = await self._house.store.records(self.seat.id, turn=turn.id)
            said = said_in(spoken, turn.id)
        undead = turn is not None and turn.id in self._house.workshop.zombies
        await self._take(
            ev.Claimed(epoch=stored.epoch, undead=undead, said=said, **self._house.stamp())
        )
        zombie = self.session.zombie
        if zombie is not None and zombie not in self._house.workshop.zombies:
            await self._take(ev.ZombieEnded(turn=zombie, **self._house.stamp()))
        if self._house.desk.bell.is_called(self.seat.id):
            await self._look_around()
        if self._may_rest():
            # Whoever woke it may have given up, and after a crash nobody may ever ask for anything.
            self.alarms.set("rest", REST_AFTER_SECONDS)

    async def _publish_what_is_left(self, last_seq: int) -> None:
        """What an incarnation before this one has written, and ended before it could say so."""
        before = self.seat.published
        if before is not None and before < last_seq:
            self.seat.publish(await self._house.store.records(self.seat.id, after=before))
        self.seat.published = last_seq

    async def receive(self, message: Any) -> Any:  # noqa: ANN401 - an actor's mailbox
        reply: _Reply = None
        if type(message) is Request:
            reply = await self._answer(message)
        elif type(message) is Reported:
            await self._hear(message)
            if message.office.reports_to(self):
                self.log.release()
                if self.log.has_output:
                    self.write_soon()
        elif message is not REST:
            await self._hear_from_inside(message)
        if self._may_rest():
            self._rest()
        return reply

    def _rest(self) -> None:
        """Go, unless there is something to hear first; what is in hand is answered all the same."""
        box = self.ref.statistics()
        if box.waiting or box.waiting_urgent:
            return  # what was only told would be lost; after it we are here again
        if self.seat.callers:
            # Whoever is on the way may be as late as the loop is, and is not to come in vain,
            # again and again.
            self.alarms.set("rest", REST_AFTER_SECONDS)
            return
        self.seat.is_resting = True
        self._house.lines.wake_for_expiry(self.session)
        self.ref.stop_nowait()

    async def _hear_from_inside(self, message: Any) -> None:  # noqa: ANN401 - see `receive`
        """From the house: its timers, its scribe, its desk."""
        if message is LOOK:
            await self._look_around()
        elif type(message) is ev.LadderElapsed:
            await self._take(message, more={"said": self.log.said(message.turn)})
        elif type(message) is ev.SilenceNoticed:
            await self._hear_silence()
        elif type(message) is CaughtUp:
            if message.by is self and self._ahead is not None:
                self._ahead.release(message.waits)
        elif type(message) is NotWritten:
            if message.by is self:
                self._give_up(message.error)
        else:
            await self._take(message)

    async def on_stop(self, _: object) -> None:
        """However it ended: nothing of this incarnation goes on."""
        self.log.close()
        if not self._is_in_doubt and not self._is_ahead:
            self._house.desk.settle(self.session)  # what it was about to take, it has not taken
        if self._ahead is not None:
            self._ahead.is_over = True
        self.staff.drop()
        self.alarms.drop()

    # Decide, commit, adopt, perform -----------------------------------------------------------

    async def _take(
        self,
        event: ev.Event,
        *,
        idempotency: Idempotency | None = None,
        also: Write | None = None,
        removes: SessionId | None = None,
        more: Mapping[str, Any] = NOTHING_MORE,
        is_asked: bool = False,
    ) -> _Reply:
        """`more` is what only the session's own log knows of the event.

        `is_asked`: somebody waits for the answer, and can be told that it was not to be.
        """
        desk = self._house.desk
        # From here to the commit nothing waits: what is free now is taken before anyone else looks.
        situation = desk.situation(self.session, event)
        at = event.at
        if at < max(self.session.updated_at, self.log.last_at):  # it waited, others were faster
            at = self._house.clock.now()
        if situation is not ALONE or at != event.at or more:
            event = attrs.evolve(event, at=at, situation=situation, **more)
        step = decide(self.session, event)
        if isinstance(step.reply, Refused):
            also = None
        if step.facts or also is not None:
            desk.foresee(step.session)
            kept = self._keep(step, idempotency)
            records = self.log.add_facts(step.facts)
            last = self.log.last_seq
            held = await self._commit(
                Write(self.seat.id, self.epoch, records, step.session, kept, also, removes)
            )
            if held is not None:
                may_refuse = is_asked and not is_brake(event) and self.log.last_seq == last
                if may_refuse and held.withdraw():
                    self._take_back(records, len(step.facts))
                    return Refused(not_now(self._house.health))
                return self._go_ahead(event, step, held, last, kept)
            self.session = step.session
            self.seat.adopt(step.session)
            self.log.committed(last)
            desk.settle(step.session)
        elif self.seat.session is None:
            self.seat.adopt(step.session)
        for effect in step.effects:
            perform(self, effect)
        return step.reply

    def _keep(self, step: Step, idempotency: Idempotency | None) -> Kept | None:
        """The answer, for whoever asks the same again."""
        if idempotency is None or not isinstance(step.reply, Accepted):
            return None
        return kept_receipt(self.seat.id, idempotency, step.reply.value)

    async def _commit(self, write: Write) -> Held | None:
        """Make the step durable; if it is held, gives that."""
        self._is_in_doubt = True
        written = await self._house.writer.ask(Commit(write), timeout_seconds=math.inf)
        self._is_in_doubt = False
        if isinstance(written, Held):
            return written
        if written is not None:
            self._give_up(written)
        return None

    def _take_back(self, records: Sequence[Record], decided: int) -> None:
        """As if it had never been decided: nothing of it is written, and nothing came after it."""
        self.log.take_back(records, decided)
        if self.log.has_unsent:
            self.write_soon()
        self._house.desk.settle(self.session)

    def _go_ahead(
        self, event: ev.Event, step: Step, held: Held, last: int, kept: Kept | None
    ) -> _Reply:
        """The store is degraded: go on in memory with what may go on."""
        self.session = step.session
        self.seat.adopt(step.session)
        # Whatever comes of that is written after it, for there is one writer.
        self._house.desk.settle(step.session)
        if self._ahead is None:
            do_it = Doing(partial(perform, self), self._end_turn_not_begun, self._written_at_last)
            self._ahead = Ahead(do_it)
        return self._ahead.go(event, step, held, last, kept)

    def _end_turn_not_begun(self, turn: TurnId) -> None:
        """Its agent never got it: say so as a driver would."""
        stamp = self._house.stamp()
        self._tell_urgently(
            ev.TurnEnded(turn=turn, outcome="interrupted", stop_reason="cancelled", **stamp)
        )

    def _written_at_last(
        self, last: int, refusal: SupervisorError | None, waits: Sequence[do.Effect]
    ) -> None:
        if refusal is None:
            self.log.committed(last)
            self._tell_urgently(CaughtUp(self, waits))
        elif not self._house.tree.is_leaving:
            self._tell_urgently(NotWritten(self, refusal))

    @property
    def _is_ahead(self) -> bool:
        return self._ahead is not None and self._ahead.steps > 0

    def _tell_urgently(self, message: object) -> None:
        try:
            self.ref.tell(message, urgent=True)
        except MailboxFull:
            self._house.workshop.start_soon(self._tell_when_there_is_room, message)
        except ActorStopped:
            pass

    async def _tell_when_there_is_room(self, message: object) -> None:
        await trio.sleep(_RETRY_SECONDS)
        self._tell_urgently(message)

    def _give_up(self, error: Exception) -> NoReturn:
        """What is written is not what is in memory: the next incarnation reads it."""
        if isinstance(error, Fenced):
            # Somebody else has the session now. Whoever was waiting for this incarnation calls on
            # the one that the session has then.
            self.seat.fenced = error
            raise StopActor from error
        raise error

    # What comes in ----------------------------------------------------------------------------

    async def _answer(self, request: Request) -> _Reply:
        try:
            known = await known_answer(self, request, ahead=self._ahead)
        except StoreDegraded as trouble:  # what cannot be looked up cannot be answered
            return Refused(trouble)
        if known is not None:
            return known
        if self.session.phase is Phase.SUSPENDED and type(request.event) is ev.InputSubmitted:
            # Of one that has stopped the desk says so. Whoever is up keeps the agent that it has.
            unknown = problem_of_agent(self.session.agent_name, self._house.agents)
            if unknown is not None:
                return Refused(unknown)
        return await self._take(
            request.event,
            idempotency=request.idempotency,
            also=request.also,
            removes=request.removes,
            is_asked=True,
        )

    async def _look_around(self) -> None:
        """Something is different in the tree: hear what, and go on with what that allows."""
        with self._house.desk.bell.news_for(self.session) as event:
            await self._take(event)
            # If it was promised a turn and did not begin one, somebody else may.
            self._house.desk.settle(self.session)
        # Those who call each other must not keep everybody else from running.
        await trio.lowlevel.checkpoint()

    async def _hear_silence(self) -> None:
        """Say what is so now: there may have been progress since the timer rang."""
        event = notice(self._house, self.seat)
        if event is not None:
            await self._take(event)
        self._watch_progress()

    async def _hear(self, news: Reported) -> None:
        """What a driver reports: of the agent the session has, or of one that is on its way out."""
        office, event = news.office, news.event
        if type(event) is ev.AgentClosed:
            if self.staff.is_last(office):
                await self._take(event)
        elif type(event) is ev.ZombieEnded:
            await self._take(event)
        elif not office.is_closed:
            if isinstance(event, ev.AgentExited | ev.AgentStartFailed):
                self.staff.lose(office)
            elif type(event) is ev.AgentAttached:
                self.staff.is_up(office)
            await self._take(event, more=self._what_was_said(event))

    def _what_was_said(self, event: ev.Event) -> Mapping[str, Any]:
        """Drivers report ends; what was said until then is in the log."""
        if isinstance(event, ev.TurnEnded):
            said = self.log.said(event.turn)
            if said.messages:
                text = said.text if event.text is None else event.text
                return {"text": text, "messages": said.messages}
        elif isinstance(event, ev.SteeringBeganTurn):
            return {"said": self.log.said(event.turn)}
        elif isinstance(event, ev.AgentExited) and self.session.turn is not None:
            return {"said": self.log.said(self.session.turn.id)}
        return NOTHING_MORE

    def _may_rest(self) -> bool:
        return (
            self.session.is_at_rest
            and self.staff.is_empty
            and not self._is_ahead
            and self.session.zombie is None
            and not self._house.desk.bell.is_called(self.seat.id)
        )

    # Timers -----------------------------------------------------------------------------------

    def ring(self, name: str) -> None:
        """A timer is due: tell oneself what that means now, if it still means anything."""
        event = REST if name == "rest" else meaning_of(name, self._house, self.seat)
        if event is None:
            if name == "silence":
                self._watch_progress()
            return
        try:
            self.ref.tell(event, urgent=True)
        except MailboxFull:
            self.alarms.set(name, _RETRY_SECONDS)
        except ActorStopped:
            pass

    # Progress ---------------------------------------------------------------------------------

    def _watch_progress(self) -> None:
        """Look again when the silence may have become too long."""
        seconds = seconds_until_next_look(self._house, self.seat)
        if seconds is not None:
            self.alarms.set("silence", seconds)

    # Output -----------------------------------------------------------------------------------

    def write_soon(self) -> None:
        """There is output: see that it gets to the store in time."""
        if self.log.has_unsent:
            self._house.scribe.write_now(self)
        else:
            self._house.scribe.write_later(self)
