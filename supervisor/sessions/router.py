"""Send requests and events to session actors, starting the actor if it is not running.

Rule 1: every request gets an answer from some incarnation: a reply, a refusal, or unknown.
Rule 2: a request is never carried out twice because an actor exited before it could reply.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterable
from typing import Final

import attrs
import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core import events as ev
from supervisor.core.degraded import reduces_activity
from supervisor.core.endings import Cause
from supervisor.core.errors import QueueFull, SessionNotActive, SessionNotFound, StoreDegraded
from supervisor.core.ids import SessionId
from supervisor.core.log_content import error_content
from supervisor.core.state import Phase, SessionState
from supervisor.core.step import Reply, ReplyValue, ResumeNeedsHooks, reply_value
from supervisor.core.table import decide
from supervisor.drivers.turn import CURRENT_SESSION
from supervisor.store.pending import throttled_size
from supervisor.store.port import Write

from .admission import Admission
from .hooks.blocking import BlockingHooks
from .idempotency import Idempotency, SessionRequest
from .input_expiry import InputExpiry
from .prompt_ask import PromptAsk
from .refusals import no_reply
from .registry import MAX_ATTEMPTS, SessionRegistry
from .request_exits import RequestExits
from .services import Services
from .slot import PendingStart
from .subscribers import PendingResult

logger = logging.getLogger("supervisor")

_RETRY_SECONDS: Final = 0.01
_DEGRADED_PAUSE_SECONDS: Final = 1.0
# Between attempts to order a stop: the first pause, and the longest.
_STOP_RETRY_SECONDS: Final = 0.05
_MAX_STOP_RETRY_SECONDS: Final = 2.0
# Events that resume a stopped session.
_RESUMING_EVENTS: Final = (ev.InputSubmitted, ev.ResumeRequested)


class SessionRouter:
    """Asks and tells session actors; orders stops, also while the store is degraded."""

    def __init__(
        self,
        services: Services,
        registry: SessionRegistry,
        admission: Admission,
        hooks: BlockingHooks,
    ) -> None:
        self._services = services
        self._registry = registry
        self._admission = admission
        self._hooks = hooks
        self.input_expiry = InputExpiry(services, self.tell_eventually)
        # Stops of inactive sessions that the store could not write: the first events that the
        # sessions get when it can.
        self._postponed: dict[SessionId, ev.StopRequested] = {}
        self._postponed_lock = trio.Lock()

    # Asking -------------------------------------------------------------------------------

    async def stop(
        self,
        session_id: SessionId,
        cause: Cause,
        *,
        after_turn: bool = False,
    ) -> None:
        """Stop the session for a cause, and wait until it has stopped."""
        await self.order_stop(session_id, cause, after_turn=after_turn)
        if CURRENT_SESSION.get() != session_id or not after_turn:
            await self._registry.wait_until(session_id, _has_stopped)

    async def stop_for_user(self, session_id: SessionId, *, after_turn: bool) -> None:
        """Stop the session for a user, and wait until it has stopped.

        If an inactive session cannot be claimed while the store is degraded, nothing can start it
        either: then the stop is postponed until the store recovers, and the call returns.
        """
        health = self._services.health
        while True:
            try:
                return await self.stop(session_id, "user", after_turn=after_turn)
            except StoreDegraded:
                row = (await self._registry.stored(session_id)).row
                is_asleep = self._has_no_actor(session_id) and (
                    row.is_inactive or health.is_recovery_pending
                )
                if health.is_degraded and (health.is_read_only or not is_asleep):
                    raise
            # Postponed stops are ordered when the store recovers. If it recovered during the read
            # above, nothing would order this one: so ask again.
            if health.is_degraded:
                logger.warning("stop of session %s postponed until the store recovers", session_id)
                stop = ev.StopRequested(cause="user", **self._services.stamp())
                self._postponed.setdefault(session_id, stop)
                return None

    @property
    def has_postponed_stops(self) -> bool:
        """Whether there are stops that wait for the store to recover."""
        return bool(self._postponed)

    @property
    def postponed_stops(self) -> frozenset[SessionId]:
        """The sessions whose stops wait for the store to recover."""
        return frozenset(self._postponed)

    def forget_postponed_stops(self, stopped: Iterable[SessionId]) -> None:
        """Drop the postponed stops of sessions that recovery has stopped."""
        for session_id in stopped:
            self._postponed.pop(session_id, None)

    async def order_postponed_stops(self) -> None:
        """Order the postponed stops, after the store has recovered."""
        while self._postponed and not self._services.is_closed:
            for session_id in list(self._postponed):
                try:
                    await self._order_postponed_stop(session_id)
                except StoreDegraded:
                    if self._services.health.is_degraded:
                        return  # the next recovery calls this again
                    # It recovered meanwhile, and the call for that recovery was refused too.
                    await trio.sleep(_RETRY_SECONDS)
                except Exception as error:  # noqa: BLE001 - an actor failed; retried
                    logger.warning(
                        "session %s could not be stopped yet: %s", session_id, error_content(error)
                    )
                    await trio.sleep(_DEGRADED_PAUSE_SECONDS)

    async def _order_postponed_stop(self, session_id: SessionId) -> None:
        async with self._postponed_lock:
            stop = self._postponed.get(session_id)
            if stop is None:
                return
            with contextlib.suppress(SessionNotFound):  # deleted meanwhile
                await self.ask(session_id, stop, urgent=True)
            del self._postponed[session_id]

    async def _check_degraded(self, session_id: SessionId, event: ev.Event) -> None:
        """Raise StoreDegraded unless the event reduces activity; order a postponed stop first."""
        if not reduces_activity(event):
            self._services.health.refuse_if_degraded()
        if self._postponed.get(session_id, event) is event:
            return
        try:
            await self._order_postponed_stop(session_id)
        except StoreDegraded:
            if not reduces_activity(event):
                raise

    async def order_stop(
        self,
        session_id: SessionId,
        cause: Cause,
        *,
        detail: str | None = None,
        after_turn: bool = False,
    ) -> None:
        """Order the session to stop for a cause; return when the order is accepted."""
        stop = ev.StopRequested(
            cause=cause, detail=detail, after_turn=after_turn, **self._services.stamp()
        )
        while True:
            try:
                await self.ask(session_id, stop, urgent=True)
                break
            except QueueFull:  # a stop is never refused because of other requests
                await trio.sleep(_RETRY_SECONDS)

    async def order_stop_with_retry(
        self, session_id: SessionId, cause: Cause, detail: str | None = None
    ) -> None:
        """Order the stop until it is accepted: another session may wait for it."""
        pause = _STOP_RETRY_SECONDS
        while not self._services.is_closed:
            try:
                await self.order_stop(session_id, cause, detail=detail)
            except SessionNotFound:
                member = self._admission.tree.find(session_id)
                if member is None or member.state != "admitted":
                    return  # an admitted session may be about to be written
            except Exception as error:  # noqa: BLE001 - the store or an actor fails; retried
                if pause == _STOP_RETRY_SECONDS:  # logged once
                    logger.warning(
                        "session %s could not be stopped yet: %s", session_id, error_content(error)
                    )
            else:
                return
            await trio.sleep(pause)
            pause = min(2.0 * pause, _MAX_STOP_RETRY_SECONDS)

    async def ask(
        self,
        session_id: SessionId,
        event: ev.Event,
        *,
        idempotency: Idempotency | None = None,
        also: Write | None = None,
        removes: SessionId | None = None,
        urgent: bool = False,
        pending: PendingResult | None = None,
    ) -> ReplyValue:
        """Ask the session, and return its reply; raise what it refuses.

        With a pending result, the reply may be returned only after that is settled. An event that
        does not reduce activity waits at the throttle while the writer is behind. A request that is
        cancelled after it was sent may still be carried out.
        """
        # Each step that may wait comes behind a check whether it has to: usually there is an actor
        # and room at the throttle, and each coroutine on the way costs about 40 bytecodes.
        health, ticket, size = self._services.health, None, throttled_size(event)
        throttle = health.throttle
        if size is not None:
            ticket = throttle.acquire_now(size) or await throttle.acquire(size)
        try:
            if health.problem is not None or self._postponed:
                await self._check_degraded(session_id, event)
            request = SessionRequest(event, idempotency, joint_write=also, removes=removes)
            ref = self._registry.find_ref(session_id)
            if ref is None:
                return reply_value(await self._start_and_ask(session_id, request, urgent=urgent))
            if isinstance(event, _RESUMING_EVENTS):
                self._services.removals.refuse(session_id)
            try:
                # Without a timeout: commits have none, and an exit fails the ask.
                if pending is None:
                    reply = await ref.ask(request, timeout_seconds=math.inf, urgent=urgent)
                else:
                    reply = await PromptAsk(request, pending, throttle, ticket).send(ref)
                    ticket = None  # released with the reply
            except Exception as error:  # noqa: BLE001 - it exited before it replied
                exits = RequestExits()
                exits.add(ref, error)
            else:
                return reply_value(reply)
            return reply_value(await self._ask_next(session_id, request, exits, urgent=urgent))
        finally:
            if ticket is not None:
                throttle.release(ticket)

    async def _start_and_ask(
        self, session_id: SessionId, request: SessionRequest, *, urgent: bool
    ) -> Reply:
        """Answer a request that changes nothing from the row; else start the actor and ask it."""
        is_plain = request.idempotency is None and request.joint_write is None
        if is_plain and self._cannot_have_actor(session_id):
            reply = await self._answer_from_row(session_id, request.event)
            if reply is not None:
                return reply
        return await self._ask_next(session_id, request, RequestExits(), urgent=urgent)

    async def _ask_next(
        self, session_id: SessionId, request: SessionRequest, exits: RequestExits, *, urgent: bool
    ) -> Reply:
        """Ask the session's next incarnation, and if that exits meanwhile, the one after it.

        An incarnation is told if an earlier one may have carried the request out, and looks it up.
        """
        while exits.count < MAX_ATTEMPTS:
            if not exits.may_be_done and isinstance(request.event, _RESUMING_EVENTS):
                self._services.removals.refuse(session_id)
            try:
                ref = await self._registry.get_or_start(
                    session_id,
                    stale_ref=exits.stopped,
                    may_claim_in_memory=reduces_activity(request.event),
                )
            except (SessionNotFound, SessionNotActive, StoreDegraded) as refusal:
                if not exits.may_be_done:
                    raise
                exits.problem = refusal
                break
            except Exception as error:  # noqa: BLE001 - it exited during its start
                exits.problem = error
                exits.count += 1
                continue
            again = attrs.evolve(request, is_retry=exits.may_be_done)
            try:
                return await ref.ask(again, timeout_seconds=math.inf, urgent=urgent)
            except Exception as error:  # noqa: BLE001 - it exited before it replied
                exits.add(ref, error)
        raise no_reply(session_id, exits.problem)

    async def ask_resuming(
        self,
        session_id: SessionId,
        event: ev.InputSubmitted | ev.ResumeRequested,
        *,
        idempotency: Idempotency | None = None,
    ) -> ReplyValue:
        """Ask with an event that may resume the session, after hooks have allowed the resume.

        The session may stop or be resumed while hooks run: then they are asked again.
        """
        while True:
            resume_allowed = await self._hooks.before_resume(await self._registry.row(session_id))
            asked = event.changed(resume_allowed=resume_allowed)
            try:
                return await self.ask(session_id, asked, idempotency=idempotency)
            except ResumeNeedsHooks:
                continue

    async def _answer_from_row(self, session_id: SessionId, event: ev.Event) -> Reply | None:
        """Return the reply to a request that changes nothing, without an actor; else None."""
        stored = await self._registry.stored(session_id)
        tree_view = self._admission.view(stored.row, event)
        step = decide(stored.row, event.changed(tree_view=tree_view), stored.last_seq)
        is_idle = stored.row.is_inactive and not step.facts and not step.effects
        return step.reply if self._cannot_have_actor(session_id) and is_idle else None

    def _cannot_have_actor(self, session_id: SessionId) -> bool:
        """Return True without an actor; a start under way fails while the store is degraded."""
        slot = self._registry.find_slot(session_id)
        if slot is None:
            return True
        if slot.has_actor:
            return False
        return slot.pending_start is None or self._services.health.is_degraded

    def _has_no_actor(self, session_id: SessionId) -> bool:
        slot = self._registry.find_slot(session_id)
        return slot is None or not (slot.has_actor or slot.pending_start is not None)

    # Telling ------------------------------------------------------------------------------

    def tell_eventually(self, session_id: SessionId, event: ev.Event) -> None:
        """Tell the session in a task of its own, starting the actor if it has none."""
        self._services.tasks.start_soon(self._tell_eventually, session_id, event)

    async def _wait_for_store(self) -> None:
        """Wait until the degraded store recovers; pause if it can write, and only a read failed."""
        if self._services.health.is_degraded:
            await self._services.health.wait_healthy()
        else:
            await trio.sleep(_DEGRADED_PAUSE_SECONDS)

    async def _tell_eventually(self, session_id: SessionId, event: ev.Event) -> None:
        ref: Ref | None = None
        is_dead = False
        tries = 0
        while tries < MAX_ATTEMPTS and not self._services.is_closed:
            tries += 1
            try:
                ref = await self._registry.get_or_start(
                    session_id, stale_ref=ref if is_dead else None
                )
                ref.tell(event)
            except StoreDegraded:
                tries = 0  # retried when the store has recovered
                await self._wait_for_store()
            except MailboxFull:
                await trio.sleep(_RETRY_SECONDS)
            except ActorStopped:  # it stopped because it was idle, or crashed too often
                is_dead = True
                await trio.lowlevel.checkpoint()
            except Exception as error:  # noqa: BLE001 - deleted, or the store fails
                logger.warning("event for session %s dropped: %s", session_id, error_content(error))
                return
            else:
                return

    def tell_if_live(self, session_id: SessionId, event: ev.Event) -> None:
        """Tell the session's actor; drop the event if it has none."""
        slot = self._registry.find_slot(session_id)
        if slot is None or self._services.is_closed:
            return
        if slot.pending_start is not None:
            self._services.tasks.start_soon(
                self._tell_when_started, slot.pending_start, session_id, event
            )
        elif slot.ref is not None:
            with contextlib.suppress(ActorStopped, MailboxFull):
                slot.ref.tell(event, urgent=True)

    async def _tell_when_started(
        self, start: PendingStart, session_id: SessionId, event: ev.Event
    ) -> None:
        await start.done.wait()
        self.tell_if_live(session_id, event)


def _has_stopped(session: SessionState) -> bool:
    """Return whether a requested stop is done; a session resumed since had stopped."""
    return session.phase is Phase.STOPPED or session.stopping is None
