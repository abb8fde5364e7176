"""The tree: who is awake, how to reach a session that is not, and how to ask it.

Rule 1: a session has one actor at most, and one start of one.
Rule 2: a start runs apart from whoever needs it, so that giving up leaves nothing half done.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import trio

from actors import Actor, ActorStopped, Ended, GaveUp, MailboxFull, Ref, RestartPolicy
from supervisor.core import events as ev
from supervisor.core.brakes import is_brake
from supervisor.core.errors import (
    QueueFull,
    SessionNotActive,
    SessionNotFound,
    StoreDegraded,
    SupervisorError,
)
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.session import Cause, Phase, Session
from supervisor.core.step import InterruptReport, Receipt, Refused, Reply, UnderWay
from supervisor.core.table import decide
from supervisor.drivers.turn import INSIDE
from supervisor.store.port import Stored, Write

from .refusals import did_not_answer, has_left, not_found
from .shell.actor import Idempotency, Request, SessionActor
from .shell.seat import Condition, Seat, Start
from .shell.timers import Timer

if TYPE_CHECKING:
    from .house import House

logger = logging.getLogger("supervisor")

# A session's actor is ours: that it crashes is a defect, or the store's trouble.
RESTART: Final = RestartPolicy(
    "transient", max_restarts=5, within_seconds=10.0, backoff_seconds=0.05
)
SHUTDOWN_SECONDS: Final = 5.0
# How many incarnations of a session may end under a request before its sender hears of it.
TRIES: Final = 5
_RETRY_SECONDS: Final = 0.01
# Between tries to bring a session back: the first, and the longest.
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_PAGE: Final = 500
# What brings a stopped session back.
_REVIVING: Final = (ev.InputSubmitted, ev.ResumeRequested)


class Undertaker(Actor):
    """Is told when a session's actor has ended for good, and has the tree forget it."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def receive(self, message: Any) -> None:  # noqa: ANN401 - an actor's mailbox
        """Only ends are told here."""
        if isinstance(message, Ended) and isinstance(message.ref, Ref):
            self._tree.bury(message.ref, message.reason)
        await trio.lowlevel.checkpoint()


class Tree:
    """The index of all sessions that are in memory."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._seats: dict[SessionId, Seat] = {}
        # For what waits in sessions at rest and has a time to live.
        self._expiries: dict[SessionId, Timer] = {}
        # Sessions that are about to be replaced or deleted: nothing brings them back.
        self.ending: set[SessionId] = set()
        # Sessions that somebody tries to bring back.
        self._reviving: set[SessionId] = set()
        self._undertaker: Ref | None = None
        # Once set, nothing new begins; and once nobody is left, nothing is answered either.
        self.is_leaving = False
        self.is_closed = False

    async def open(self) -> None:
        """Start to look after ends."""
        self._undertaker = await self._house.system.start(
            lambda: Undertaker(self), name="undertaker", restart="permanent"
        )

    # Finding ------------------------------------------------------------------------------

    def refuse_if_leaving(self) -> None:
        """Raise if nothing new may begin: we are about to leave, or it could not be written."""
        if self.is_leaving:
            raise SessionNotActive(
                "the supervisor is leaving", hint="open it again; what was accepted is kept"
            )
        self._house.health.refuse_if_degraded()

    def refuse_if_closed(self) -> None:
        """Raise if the supervisor has left."""
        if self.is_closed:
            raise has_left()

    def problem_of_ending(self, session_id: SessionId) -> SessionNotActive | None:
        """Why nothing may bring the session back, if it is about to be replaced or deleted."""
        if session_id not in self.ending:
            return None
        return SessionNotActive(
            f"session {session_id} is being replaced or deleted",
            hint="send it to the one that comes after it",
        )

    def seat(self, session_id: SessionId) -> Seat:
        """The session's seat, made if there is none; somebody must need it, or it is forgotten."""
        seat = self._seats.get(session_id)
        if seat is None:
            seat = self._seats[session_id] = Seat(self._house, session_id)
        return seat

    def find_seat(self, session_id: SessionId) -> Seat | None:
        """The session's seat, if it has one."""
        return self._seats.get(session_id)

    def let_go(self, seat: Seat) -> None:
        """Forget the seat if nobody needs it.

        Not that of one who is to be brought back: it knows what everybody has been told.
        """
        if seat.is_needed or seat.id in self._reviving:
            return
        if self._seats.get(seat.id) is seat:
            del self._seats[seat.id]

    def live(self) -> list[Seat]:
        """The seats of all sessions that have an actor."""
        return [seat for seat in self._seats.values() if seat.ref is not None]

    def awake(self) -> list[Seat]:
        """The seats of all sessions that have an actor, or will in a moment."""
        return [seat for seat in self._seats.values() if seat.ref is not None or seat.start]

    async def wait_for_rest(self, seat: Seat) -> None:
        """Wait for the next step of the session's way to its rest: up, at rest, gone."""
        if seat.start is not None:
            await seat.start.done.wait()
        elif seat.session is not None and not seat.session.is_at_rest:
            await self.wait_until(seat.id, lambda session: session.is_at_rest)
        elif seat.ref is not None:
            await self.wait_over(seat.ref)

    async def reach(self, session_id: SessionId, *, not_this: Ref | None = None) -> Ref:
        """The session's actor, started from its row if it has none; raises `SessionNotFound`.

        `not_this` is one that was reached before and turned out to be over.
        """
        while True:
            self.refuse_if_closed()
            seat = self.seat(session_id)
            if seat.ref is not None and not seat.is_resting and seat.ref is not not_this:
                return seat.ref
            if seat.start is None:
                seat.start = Start()
                self._house.workshop.start_soon(self._start, seat, seat.start)
            start = seat.start
            await start.done.wait()
            if start.error is not None:
                raise start.error

    async def _start(self, seat: Seat, start: Start) -> None:
        """Runs apart from whoever asked, so that giving up leaves nothing half done."""
        try:
            if seat.ref is not None:
                await self.wait_over(seat.ref)
            ref = await self._house.system.start(
                functools.partial(SessionActor, seat),
                name=seat.id,
                restart=RESTART,
                shutdown_seconds=SHUTDOWN_SECONDS,
            )
            seat.ref = ref
            assert self._undertaker is not None
            self._undertaker.watch(ref)
        except Exception as error:  # noqa: BLE001 - handed to all who wait for it
            start.error = error
        finally:
            if seat.ref is None and start.error is None:
                start.error = has_left()  # the house is being closed around us
            seat.start = None
            start.done.set()
            self.let_go(seat)

    def bury(self, ref: Ref, reason: object) -> None:
        """A session's actor has ended for good."""
        seat = self._seats.get(SessionId(ref.name))
        if seat is None or seat.ref is not ref:
            return
        error: SupervisorError | None = seat.fenced
        if isinstance(reason, GaveUp):
            logger.error("session %s was given up", seat.id, exc_info=reason)
            error = SessionNotActive(
                f"the actor of session {seat.id} failed too often",
                hint="what was accepted is kept; look at the log, then try again",
            )
            self.revive(seat.id)
        elif seat.fenced is not None and self._house.desk.bell.is_called(seat.id):
            self.revive(seat.id)  # it is wanted here: there is something that it has to hear
        seat.vacate(error)
        self.let_go(seat)

    def revive(self, session_id: SessionId) -> None:
        """Bring a session back that could not start, or was given up, when things are better."""
        if session_id not in self._reviving:
            self._reviving.add(session_id)
            self._house.workshop.start_soon(self._revive, session_id)

    async def _revive(self, session_id: SessionId) -> None:
        pause = _FIRST_PAUSE_SECONDS
        try:
            while not self.is_leaving:
                await trio.sleep(pause)
                pause = min(2.0 * pause, _LONGEST_PAUSE_SECONDS)
                try:
                    row = (await self.stored(session_id)).row
                    if not row.is_at_rest or self._house.desk.bell.is_called(session_id):
                        await self.reach(session_id)
                except SessionNotFound:
                    return
                except Exception as error:  # noqa: BLE001 - the store's trouble is not over
                    logger.warning("session %s is still not back: %s", session_id, error)
                else:
                    return
        finally:
            self._reviving.discard(session_id)
            seat = self._seats.get(session_id)
            if seat is not None:
                self.let_go(seat)

    def close(self) -> None:
        """Nothing is answered any more, and nobody is left waiting."""
        self.is_leaving = self.is_closed = True
        for seat in list(self._seats.values()):
            seat.close(has_left())
        for reader in self._house.readers:
            reader.end()

    # Asking -------------------------------------------------------------------------------

    async def stop(
        self,
        session_id: SessionId,
        cause: Cause,
        *,
        after_turn: bool = False,
    ) -> None:
        """Stop it for that cause, and wait until it has stopped."""
        await self.order_stop(session_id, cause, after_turn=after_turn)
        if INSIDE.get() != session_id or not after_turn:
            await self.wait_until(session_id, _has_stopped)

    async def order_stop(
        self,
        session_id: SessionId,
        cause: Cause,
        *,
        detail: str | None = None,
        after_turn: bool = False,
    ) -> None:
        """Have it stop for that cause; answers when it is on its way."""
        if self._house.health.is_degraded:
            # It may have to wait for the store itself, and those who end with it must not.
            self._house.desk.stop_dependents(session_id)
        stop = ev.StopRequested(
            cause=cause, detail=detail, after_turn=after_turn, **self._house.stamp()
        )
        while True:
            try:
                await self.ask(session_id, stop, urgent=True)
                break
            except QueueFull:  # a stop is never refused because of what others want
                await trio.sleep(_RETRY_SECONDS)

    async def ask(  # noqa: C901 - one case for each way not to be answered
        self,
        session_id: SessionId,
        event: ev.Event,
        *,
        idempotency: Idempotency | None = None,
        also: Write | None = None,
        removes: SessionId | None = None,
        urgent: bool = False,
    ) -> Receipt | InterruptReport | UnderWay | None:
        """Ask the session, and if its actor ends meanwhile, the next one; raises what it refuses.

        Cancelled after it was sent, it may still be done. A second incarnation is told that
        it may have been done before, and finds out.
        """
        if not is_brake(event):
            self._house.health.refuse_if_degraded()
        dead: Ref | None = None
        problem: Exception | None = None
        again = False  # whether it may have been done by one who could not say so
        if idempotency is None and also is None and self._sleeps(session_id):
            reply = await self._answer_from_row(session_id, event)
            if reply is not None:
                return _value(reply)
        deaths = 0
        while deaths < TRIES:
            ending = self.problem_of_ending(session_id) if isinstance(event, _REVIVING) else None
            if ending is not None and not again:
                raise ending
            try:
                ref = await self.reach(session_id, not_this=dead)
            except (SessionNotFound, SessionNotActive, StoreDegraded) as refusal:
                if not again:
                    raise
                problem = refusal
                break
            except Exception as error:  # noqa: BLE001 - it ended while it was starting
                problem = error
                deaths += 1
                continue
            request = Request(event, idempotency, again=again, also=also, removes=removes)
            try:
                # Without a time-out of its own: commits have none, and every death is an answer.
                reply = await ref.ask(request, timeout_seconds=math.inf, urgent=urgent)
            except MailboxFull as full:
                raise QueueFull(
                    f"session {session_id} has {full.capacity} messages waiting",
                    hint="it is busy with those; try again in a moment",
                ) from None
            except Exception as error:  # noqa: BLE001 - it ended before it answered
                problem = error
                if not isinstance(error, ActorStopped) or error.was_in_hand:
                    again = True
                    deaths += 1
                # After a crash the same actor comes back; after an end, another one is started.
                dead = ref if ref.statistics().state in ("stopping", "stopped") else None
                continue
            return _value(reply)
        raise did_not_answer(session_id, problem)

    async def _answer_from_row(self, session_id: SessionId, event: ev.Event) -> Reply | None:
        """What changes nothing need not wake it: the row decides that as well as the actor."""
        row = (await self.stored(session_id)).row
        step = decide(row, event)
        is_idle = row.is_at_rest and not step.facts and not step.effects
        return step.reply if self._sleeps(session_id) and is_idle else None

    def _sleeps(self, session_id: SessionId) -> bool:
        seat = self._seats.get(session_id)
        return seat is None or (seat.ref is None and seat.start is None)

    async def all_records(self, session_id: SessionId) -> list[Record]:
        """All records of a session, read in pages, so that nobody has to wait for a long one."""
        found: list[Record] = []
        while True:
            page = await self._house.store.records(session_id, after=len(found), limit=_PAGE)
            found += page
            if len(page) < _PAGE:
                return found

    async def wait_until(self, session_id: SessionId, condition: Condition) -> Session:
        """Wait until the session is so, whether it is awake, sleeps or wakes meanwhile."""
        self.refuse_if_closed()
        seat = self.seat(session_id)
        wait = seat.add_wait(condition)
        try:
            if seat.session is None and not wait.happened.is_set():
                row = (await self.stored(session_id)).row
                if seat.session is None and not wait.happened.is_set() and condition(row):
                    return row
            await wait.happened.wait()
        finally:
            seat.remove_wait(wait)
            self.let_go(seat)
        if wait.error is not None:
            raise wait.error
        assert wait.session is not None
        return wait.session

    @contextlib.contextmanager
    def awaiting(self, inside: SessionId | None, other: SessionId) -> Iterator[None]:
        """Have it known that the agent of the one session waits for the other, if it does."""
        if inside is None or inside == other:
            yield
            return
        seat = self.seat(inside)
        if seat.awaits is None:
            seat.awaits = []
        seat.awaits.append(other)
        # Kept though the other may rest: when it was last seen to get on matters until the end.
        awaited = self.seat(other)
        awaited.awaited += 1
        try:
            yield
        finally:
            seat.awaits.remove(other)
            seat.progressed()  # whatever came of it, its own silence begins only now
            awaited.awaited -= 1
            self.let_go(awaited)
            self.let_go(seat)

    async def stored(self, session_id: SessionId) -> Stored:
        """The session as the store has it; raises `SessionNotFound`."""
        self.refuse_if_closed()
        stored = await self._house.store.read(session_id)
        if stored is None:
            raise not_found(session_id)
        return stored

    async def row(self, session_id: SessionId) -> Session:
        """The session's state as of its last commit; raises `SessionNotFound`."""
        self.refuse_if_closed()
        seat = self._seats.get(session_id)
        if seat is not None and seat.session is not None:
            await trio.lowlevel.checkpoint()
            if seat.session is not None:
                return seat.session
        return (await self.stored(session_id)).row

    def wake_for_expiry(self, session: Session) -> None:
        """See that what waits in a session at rest expires in time, though its actor is gone."""
        times = [waiting.expires_at for waiting in session.inputs if waiting.expires_at is not None]
        old = self._expiries.pop(session.id, None)
        if old is not None:
            self._house.timers.drop(old)
        if times:
            timer = self._expiries[session.id] = Timer(session.id, self._expire)
            after_seconds = max(0.0, min(times) - self._house.clock.now())
            self._house.timers.set(timer, after_seconds)

    def _expire(self, session_id: str) -> None:
        self._expiries.pop(SessionId(session_id), None)
        self._house.workshop.start_soon(self._tell_expired, SessionId(session_id))

    async def _tell_expired(self, session_id: SessionId) -> None:
        await self._tell_surely(session_id, ev.InputsExpired(**self._house.stamp()))

    def tell_surely(self, session_id: SessionId, event: ev.Event) -> None:
        """Tell the session, which is woken for it if it rests."""
        self._house.workshop.start_soon(self._tell_surely, session_id, event)

    async def _tell_surely(self, session_id: SessionId, event: ev.Event) -> None:
        ref: Ref | None = None
        is_dead = False
        tries = 0
        while tries < TRIES and not self.is_closed:
            tries += 1
            try:
                ref = await self.reach(session_id, not_this=ref if is_dead else None)
                ref.tell(event)
            except StoreDegraded:
                tries = 0  # it is told when the store is back
                await trio.sleep(_FIRST_PAUSE_SECONDS)
            except MailboxFull:
                await trio.sleep(_RETRY_SECONDS)
            except ActorStopped:  # it has just gone to rest, or was given up
                is_dead = True
                await trio.lowlevel.checkpoint()
            except Exception as error:  # noqa: BLE001 - it is gone, or the store is in trouble
                logger.warning("session %s could not be told: %s", session_id, error)
                return
            else:
                return

    def tell_next(self, session_id: SessionId, event: ev.Event) -> None:
        """Tell whoever is the session's actor now; if it has none, nobody needs to know."""
        seat = self._seats.get(session_id)
        if seat is None or self.is_closed:
            return
        if seat.start is not None:
            self._house.workshop.start_soon(self._tell_when_up, seat.start, session_id, event)
        elif seat.ref is not None:
            with contextlib.suppress(ActorStopped, MailboxFull):
                seat.ref.tell(event, urgent=True)

    async def _tell_when_up(self, start: Start, session_id: SessionId, event: ev.Event) -> None:
        await start.done.wait()
        self.tell_next(session_id, event)

    async def wait_over(self, ref: Ref) -> None:
        """Wait until that actor has ended, and forget it, sooner than the undertaker would."""
        reason: object
        try:
            reason = await ref.wait_stopped()
        except GaveUp as gave_up:
            reason = gave_up
        self.bury(ref, reason)


def _has_stopped(session: Session) -> bool:
    """Whether a stop that was asked for is done; if somebody has resumed it since, it was."""
    return session.phase is Phase.STOPPED or session.stopping is None


def _value(reply: Reply | None) -> Receipt | InterruptReport | UnderWay | None:
    assert reply is not None
    if isinstance(reply, Refused):
        raise reply.error
    return reply.value
