"""The lines: how sessions are asked and told things, awake or not.

Rule 1: whoever asks is answered, by whichever incarnation: a reply, a refusal, or not known.
Rule 2: what was asked is never done twice because an actor ended before it could say that it was.
"""

from __future__ import annotations

import contextlib
import logging
import math
from typing import TYPE_CHECKING, Final

import attrs
import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core import events as ev
from supervisor.core.brakes import is_brake
from supervisor.core.errors import QueueFull, SessionNotActive, SessionNotFound, StoreDegraded
from supervisor.core.ids import SessionId
from supervisor.core.receipts import InterruptReport, Receipt
from supervisor.core.session import Cause, Phase, Session
from supervisor.core.step import HooksFirst, Refused, Reply, UnderWay
from supervisor.core.table import decide
from supervisor.drivers.turn import INSIDE
from supervisor.store.port import Write

from .refusals import did_not_answer
from .shell.repeats import Idempotency, Request
from .shell.seat import Start
from .time.timers import Timer
from .tree import TRIES

if TYPE_CHECKING:
    from .house.house import House

logger = logging.getLogger("supervisor")

_RETRY_SECONDS: Final = 0.01
_DEGRADED_PAUSE_SECONDS: Final = 1.0
# What brings a stopped session back.
_REVIVING: Final = (ev.InputSubmitted, ev.ResumeRequested)


class Lines:
    """One for the house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._tree = house.tree
        # For what waits in sessions at rest and has a time to live.
        self._expiries: dict[SessionId, Timer] = {}
        # Stops of sessions at rest that the store could not write: they are the first that their
        # sessions hear of when it can.
        self._postponed: dict[SessionId, ev.StopRequested] = {}
        self._delivering = trio.Lock()

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
            await self._tree.wait_until(session_id, _has_stopped)

    async def brake(self, session_id: SessionId, *, after_turn: bool) -> None:
        """Stop it for whoever asks, and wait until it has stopped.

        One at rest cannot be claimed while the store is degraded, and nothing can wake it: so it
        is as good as stopped, and is when the store is well.
        """
        health = self._house.health
        while True:
            try:
                return await self.stop(session_id, "user", after_turn=after_turn)
            except StoreDegraded:
                row = (await self._tree.stored(session_id)).row
                is_asleep = row.is_at_rest and self._sleeps(session_id)
                if health.is_degraded and (health.is_given_up or not is_asleep):
                    raise
            # Whoever sees to what is postponed does so when the store gets well. If it did while we
            # looked, nobody would.
            if health.is_degraded:
                logger.warning("session %s rests, and stops when the store is well", session_id)
                stop = ev.StopRequested(cause="user", **self._house.stamp())
                self._postponed.setdefault(session_id, stop)
                return None

    @property
    def has_postponed(self) -> bool:
        """Whether there are sessions at rest that stop when the store is well."""
        return bool(self._postponed)

    async def order_postponed_stops(self) -> None:
        """Have those stop of whom that is wanted: the store is well again."""
        while self._postponed and not self._tree.is_closed:
            for session_id in list(self._postponed):
                try:
                    await self._order_postponed(session_id)
                except StoreDegraded:
                    if self._house.health.is_degraded:
                        return  # and when it is well the next time, so are we
                    # It got well before we heard of it, and who was called for that heard the same.
                    await trio.sleep(_RETRY_SECONDS)
                except Exception as error:  # noqa: BLE001 - an actor's trouble, which passes
                    logger.warning("session %s could not be stopped yet: %s", session_id, error)
                    await trio.sleep(_DEGRADED_PAUSE_SECONDS)

    async def _order_postponed(self, session_id: SessionId) -> None:
        async with self._delivering:
            stop = self._postponed.get(session_id)
            if stop is None:
                return
            with contextlib.suppress(SessionNotFound):  # deleted meanwhile
                await self.ask(session_id, stop, urgent=True)
            del self._postponed[session_id]

    async def _refuse_or_stop_first(self, session_id: SessionId, event: ev.Event) -> None:
        """Raise `StoreDegraded` for what is no brake; and what was postponed comes before it."""
        if not is_brake(event):
            self._house.health.refuse_if_degraded()
        if self._postponed.get(session_id, event) is event:
            return
        try:
            await self._order_postponed(session_id)
        except StoreDegraded:
            if not is_brake(event):
                raise

    async def order_stop(
        self,
        session_id: SessionId,
        cause: Cause,
        *,
        detail: str | None = None,
        after_turn: bool = False,
    ) -> None:
        """Have it stop for that cause; answers when it is on its way."""
        stop = ev.StopRequested(
            cause=cause, detail=detail, after_turn=after_turn, **self._house.stamp()
        )
        while True:
            try:
                await self.ask(session_id, stop, urgent=True)
                break
            except QueueFull:  # a stop is never refused because of what others want
                await trio.sleep(_RETRY_SECONDS)

    async def ask(
        self,
        session_id: SessionId,
        event: ev.Event,
        *,
        idempotency: Idempotency | None = None,
        also: Write | None = None,
        removes: SessionId | None = None,
        urgent: bool = False,
    ) -> Receipt | InterruptReport | UnderWay | None:
        """Ask the session, whichever its actor is; raises what it refuses.

        Whoever asks when much is on its way to the store waits at the door first, but for brakes.
        """
        if is_brake(event):
            return await self._ask(session_id, event, idempotency, also, removes, urgent=urgent)
        load = self._house.health.load
        carried = await load.enter(_size_of(event))
        try:
            return await self._ask(session_id, event, idempotency, also, removes, urgent=urgent)
        finally:
            load.leave(carried)

    async def _ask(  # noqa: C901 - one case for each way not to be answered
        self,
        session_id: SessionId,
        event: ev.Event,
        idempotency: Idempotency | None,
        also: Write | None,
        removes: SessionId | None,
        *,
        urgent: bool,
    ) -> Receipt | InterruptReport | UnderWay | None:
        """Ask the session, and if its actor ends meanwhile, the next one; raises what it refuses.

        Cancelled after it was sent, it may still be done. A second incarnation is told that
        it may have been done before, and finds out.
        """
        await self._refuse_or_stop_first(session_id, event)
        dead: Ref | None = None
        problem: Exception | None = None
        again = False  # whether it may have been done by one who could not say so
        if idempotency is None and also is None and self._sleeps(session_id):
            reply = await self._answer_from_row(session_id, event)
            if reply is not None:
                return _value(reply)
        deaths = 0
        while deaths < TRIES:
            if isinstance(event, _REVIVING) and not again:
                self._tree.refuse_if_ending(session_id)
            try:
                ref = await self._tree.reach(session_id, not_this=dead)
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

    async def ask_back(
        self,
        session_id: SessionId,
        event: ev.InputSubmitted | ev.ResumeRequested,
        *,
        idempotency: Idempotency | None = None,
    ) -> Receipt | InterruptReport | UnderWay | None:
        """Ask for what brings a stopped session back, once hooks have said that it may.

        It may stop while they are asked about other things, or come back by somebody else's doing.
        """
        while True:
            may_return = await self._house.gates.resuming(await self._tree.row(session_id))
            asked = attrs.evolve(event, may_return=may_return)
            try:
                return await self.ask(session_id, asked, idempotency=idempotency)
            except HooksFirst:
                continue

    async def _answer_from_row(self, session_id: SessionId, event: ev.Event) -> Reply | None:
        """What changes nothing need not wake it: the row decides that as well as the actor."""
        row = (await self._tree.stored(session_id)).row
        situation = self._house.desk.situation(row, event)
        step = decide(row, attrs.evolve(event, situation=situation))
        is_idle = row.is_at_rest and not step.facts and not step.effects
        return step.reply if self._sleeps(session_id) and is_idle else None

    def _sleeps(self, session_id: SessionId) -> bool:
        seat = self._tree.find_seat(session_id)
        return seat is None or (seat.ref is None and seat.start is None)

    # Telling ------------------------------------------------------------------------------

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
        while tries < TRIES and not self._tree.is_closed:
            tries += 1
            try:
                ref = await self._tree.reach(session_id, not_this=ref if is_dead else None)
                ref.tell(event)
            except StoreDegraded:
                tries = 0  # it is told when the store is back
                await trio.sleep(_DEGRADED_PAUSE_SECONDS)
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
        seat = self._tree.find_seat(session_id)
        if seat is None or self._tree.is_closed:
            return
        if seat.start is not None:
            self._house.workshop.start_soon(self._tell_when_up, seat.start, session_id, event)
        elif seat.ref is not None:
            with contextlib.suppress(ActorStopped, MailboxFull):
                seat.ref.tell(event, urgent=True)

    async def _tell_when_up(self, start: Start, session_id: SessionId, event: ev.Event) -> None:
        await start.done.wait()
        self.tell_next(session_id, event)


def _size_of(event: ev.Event) -> int:
    """About how much it brings."""
    size = getattr(event, "attachment_bytes", 0)
    text = getattr(event, "text", None)
    return size + len(text) if isinstance(text, str) else size


def _has_stopped(session: Session) -> bool:
    """Whether a stop that was asked for is done; if somebody has resumed it since, it was."""
    return session.phase is Phase.STOPPED or session.stopping is None


def _value(reply: Reply | None) -> Receipt | InterruptReport | UnderWay | None:
    assert reply is not None
    if isinstance(reply, Refused):
        raise reply.error
    return reply.value
