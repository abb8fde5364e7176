"""The session actor: decide, commit, adopt, perform.

Rule 1: nothing leaves the actor before its commit is durable: no record, no reply, no effect. The
        exception are effects that reduce activity while the store is degraded; see `degraded`.
Rule 2: nothing is decided here. Any `if` about a session's lifecycle belongs in the core.
Rule 3: if the outcome of a commit is unknown, this incarnation ends; the next one claims the row
        and continues from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import trio

from actors import Actor, ActorStopped, Later, StopActor
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.degraded import reduces_activity
from supervisor.core.errors import Fenced, StoreDegraded
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.state import Phase, SessionState
from supervisor.core.step import Refused, Reply, Step
from supervisor.core.table import decide
from supervisor.core.tree.admission import EMPTY_TREE_VIEW
from supervisor.store.pending import PendingWrite
from supervisor.store.port import Stored, StoredReply, Write
from supervisor.store.writer_messages import Commit

from .admission import Admission
from .agent_runner import AgentRunner
from .degraded import DegradedSteps, StepReports, StepWritten
from .driver_context import NO_FIELDS, DriverReport, MakeContext, output_fields
from .hooks.blocking import BlockingHooks
from .idempotency import Idempotency, SessionRequest, find_known_reply, reply_to_store
from .liveness import Liveness
from .log import Log, WriteFailed
from .perform import Performer
from .refusals import session_not_found, store_degraded, unknown_agent_problem
from .registry import RECHECK
from .services import Services
from .session_timers import STOP_IF_IDLE, SessionTimers
from .slot import SessionSlot

# A reply, a reply that follows later, or none.
_Reply: TypeAlias = Reply | Later[Reply] | None


class SessionActor(Actor):
    """One incarnation of a session; state that outlives it is in the slot and in the store.

    `schedule_input_expiry` sets the timer for queued inputs of a session whose actor stops idle.
    """

    __slots__ = (
        "_admission",
        "_degraded",
        "_hooks",
        "_is_commit_unknown",
        "_liveness",
        "_make_context",
        "_performer",
        "_schedule_input_expiry",
        "_services",
        "agent_runner",
        "log",
        "session",
        "session_timers",
        "slot",
    )

    session: SessionState  # this and the next four are set by `on_start`
    log: Log
    agent_runner: AgentRunner
    session_timers: SessionTimers
    _performer: Performer

    def __init__(
        self,
        slot: SessionSlot,
        services: Services,
        admission: Admission,
        *,
        liveness: Liveness,
        hooks: BlockingHooks,
        make_context: MakeContext,
        schedule_input_expiry: Callable[[SessionState], None],
    ) -> None:
        self.slot = slot
        self._services = services
        self._admission = admission
        self._liveness = liveness
        self._hooks = hooks
        self._make_context = make_context
        self._schedule_input_expiry = schedule_input_expiry
        # True while a commit is in progress or if its outcome is unknown. Then its reservations
        # stay until the next incarnation has read the row.
        self._is_commit_unknown = False
        # Exists since the store was first degraded; steps decided since may not be durable yet.
        self._degraded: DegradedSteps | None = None

    async def on_start(self) -> None:
        try:
            stored = await self._services.writer.ask(self.slot.claim(), timeout_seconds=math.inf)
        except ActorStopped as error:
            self._abort(error)
        if stored is None:
            raise session_not_found(self.slot.id)
        self.session = stored.row
        self._admission.apply(stored.row)
        self._make_parts(stored)
        await self.slot.subscribers.publish_missed(
            self._services.store, self.slot.id, stored.last_seq
        )
        self._services.inbox.prune(stored.row)
        self.slot.log = self.log
        if self.slot.session is None:
            self.slot.session = stored.row  # so that observers see what the claim changes
        if self._services.is_shutting_down:
            # First, because work started now could not end.
            await self._handle_event(agent_events.ShutdownRequested(**self._services.stamp()))
        if self._admission.must_stop_with_parent(stored.row):
            # First, for the same reason: the order may arrive after its agent has started.
            await self._handle_event(
                ev.StopRequested(cause="parent_stopped", **self._services.stamp())
            )
        turn = stored.row.turn
        output = await self._services.stored_output(self.slot.id, turn)
        is_zombie = turn is not None and turn.id in self._services.tasks.zombies
        await self._handle_event(
            agent_events.Claimed(
                epoch=stored.epoch, left_zombie=is_zombie, output=output, **self._services.stamp()
            )
        )
        zombie = self.session.zombie
        if zombie is not None and zombie not in self._services.tasks.zombies:
            await self._handle_event(
                agent_events.ZombieEnded(turn=zombie, **self._services.stamp())
            )
        if self._admission.needs_recheck(self.slot.id):
            await self._reevaluate()
        if self._may_stop():
            # Its caller may be cancelled or absent: then no later message would stop the actor.
            self.session_timers.set_idle_stop()

    def _make_parts(self, stored: Stored) -> None:
        """Create the log, the timers, the runner and the performer of this incarnation."""
        self.log = Log(
            self.slot.id,
            self.slot.subscribers,
            self._services.active_clock,
            epoch=stored.epoch,
            last_seq=stored.last_seq,
            ref=self.ref,
            budget=self._services.output_budget,
        )
        self.session_timers = SessionTimers(
            self._services.timers, self._liveness, self.slot, self.ref
        )
        self.agent_runner = AgentRunner(
            self.slot,
            self._services,
            self.log,
            self.ref,
            self._state,
            hooks=self._hooks,
            make_context=self._make_context,
        )
        self._performer = Performer(
            self.slot,
            timers=self.session_timers,
            runner=self.agent_runner,
            admission=self._admission,
        )

    def _state(self) -> SessionState:
        return self.session

    async def receive(self, message: Any) -> Any:  # noqa: ANN401 - an actor's mailbox
        reply: _Reply = None
        if type(message) is SessionRequest:
            reply = await self._handle_request(message)
        elif type(message) is DriverReport:
            await self._handle_report(message)
            if message.context.belongs_to(self.log):
                self.log.release_output()
                if self.log.has_output:
                    self._services.flusher.request_flush(self.log)
        elif message is not STOP_IF_IDLE:
            await self._handle_internal(message)
        if self._may_stop():
            self._stop_if_idle()
        return reply

    def _stop_if_idle(self) -> None:
        """Stop, unless messages or callers wait; the current message is still answered."""
        box = self.ref.statistics()
        if box.waiting or box.waiting_urgent:
            return  # waiting messages would be lost; this is called again after each
        if self.slot.callers:
            # The event loop may delay a caller, which must not find a stopped actor repeatedly.
            self.session_timers.set_idle_stop()
            return
        self.slot.is_stopping_idle = True
        self._schedule_input_expiry(self.session)
        self.ref.stop_nowait()

    async def _handle_internal(self, message: Any) -> None:  # noqa: ANN401 - see `receive`
        """Handle a message without a reply: from a timer, the flusher, admission or a caller."""
        if message is RECHECK:
            await self._reevaluate()
        elif type(message) is agent_events.LadderElapsed:
            await self._handle_event(message, more={"output": self.log.turn_output(message.turn)})
        elif type(message) is agent_events.SilenceNoticed:
            await self._report_silence()
        elif type(message) is StepWritten:
            if message.log is self.log and self._degraded is not None:
                self._degraded.perform_deferred(message.deferred)
        elif type(message) is WriteFailed:
            if message.log is self.log:
                self._abort(message.error)
        else:
            await self._handle_event(message)

    async def on_stop(self, _: object) -> None:
        """Drop everything of this incarnation, however it ended."""
        self.log.close()
        if not self._is_commit_unknown and not self._has_degraded_steps:
            self._admission.apply(self.session)  # releases reservations of an uncommitted step
        if self._degraded is not None:
            self._degraded.is_closed = True
        self.agent_runner.drop()
        self.session_timers.drop()

    # Decide, commit, adopt, perform -----------------------------------------------------------

    async def _handle_event(
        self,
        event: ev.Event,
        *,
        idempotency: Idempotency | None = None,
        also: Write | None = None,
        removes: SessionId | None = None,
        more: Mapping[str, Any] = NO_FIELDS,
        has_caller: bool = False,
    ) -> _Reply:
        """Decide, commit, adopt and perform; return the reply.

        `more` are event fields that only the log has. With `has_caller`, a caller waits for the
        reply, so the request can be refused while the store is degraded.
        """
        admission = self._admission
        # No await from here to the commit: a free slot is reserved before another step is decided.
        tree_view = admission.view(self.session, event)
        at = event.at
        if at < self.session.updated_at or at < self.log.last_at:  # a later one was handled first
            at = self._services.clock.now()
        if tree_view is not EMPTY_TREE_VIEW or at != event.at or more:
            event = event.changed(at=at, tree_view=tree_view, **more)
        step = decide(self.session, event)
        if isinstance(step.reply, Refused):
            also = None
        if step.facts or also is not None:
            admission.reserve(step.state)
            kept = reply_to_store(self.slot.id, idempotency, step.reply)
            records = self.log.add_facts(step.facts)
            last = self.log.last_seq
            held = await self._commit(
                Write(self.slot.id, self.log.epoch, records, step.state, kept, also, removes)
            )
            if held is not None:
                may_refuse = (
                    has_caller and not reduces_activity(event) and self.log.last_seq == last
                )
                if may_refuse and held.withdraw():
                    self._withdraw_step(records, len(step.facts))
                    return Refused(store_degraded(self._services.health))
                return self._adopt_degraded(event, step, held, last, kept)
            self.session = step.state
            self.slot.adopt(step.state)
            self.log.mark_committed(last)
            admission.apply(step.state)
        elif self.slot.session is None:
            self.slot.adopt(step.state)
        for effect in step.effects:
            self._performer.perform(effect)
        return step.reply

    async def _commit(self, write: Write) -> PendingWrite | None:
        """Commit the step; return the pending write if the store is degraded."""
        self._is_commit_unknown = True
        try:
            written = await self._services.writer.ask(Commit(write), timeout_seconds=math.inf)
        except ActorStopped as error:
            self._abort(error)
        self._is_commit_unknown = False
        if isinstance(written, PendingWrite):
            return written
        if written is not None:
            self._abort(written)
        return None

    def _withdraw_step(self, records: Sequence[Record], decided: int) -> None:
        """Undo a step that is not written and has no later step."""
        self.log.withdraw(records, decided)
        if self.log.has_unsent:
            self._services.flusher.request_flush(self.log)
        self._admission.apply(self.session)

    def _adopt_degraded(
        self, event: ev.Event, step: Step, held: PendingWrite, last: int, kept: StoredReply | None
    ) -> _Reply:
        """Adopt a step in memory while the store is degraded; perform the permitted effects."""
        self.session = step.state
        self.slot.adopt(step.state)
        # Later writes that depend on this step follow it, because there is one writer.
        self._admission.apply(step.state)
        if self._degraded is None:
            reports = StepReports(self._services, self.ref, self.log)
            self._degraded = DegradedSteps(self._performer.perform, reports)
        return self._degraded.adopt(event, step, held, last, kept)

    @property
    def _has_degraded_steps(self) -> bool:
        return self._degraded is not None and self._degraded.unwritten_steps > 0

    def _abort(self, error: Exception) -> NoReturn:
        """End this incarnation: the store differs from memory, and the next one reads it."""
        if isinstance(error, Fenced):
            # Claimed by another supervisor. Callers of this incarnation ask the next one.
            self.slot.fence_error = error
            raise StopActor from error
        if isinstance(error, ActorStopped) and self._services.is_closed:
            raise StopActor from error  # the writer of a store that failed ends before sessions
        raise error

    # Messages ---------------------------------------------------------------------------------

    async def _handle_request(self, request: SessionRequest) -> _Reply:
        repeated = request.idempotency
        if repeated is not None and self._degraded is not None:
            owed = self._degraded.find_unwritten_reply(repeated.key, repeated.fingerprint)
            if owed is not None:
                return owed
        if repeated is not None or request.is_retry:
            try:
                known = await find_known_reply(self._services, self.session, request)
            except StoreDegraded as error:  # the lookup failed, so the earlier reply is unknown
                return Refused(error)
            if known is not None:
                return known
        if self.session.phase is Phase.SUSPENDED and type(request.event) is ev.InputSubmitted:
            # For a stopped session admission refuses the input. A live session keeps its agent.
            unknown = unknown_agent_problem(self.session.agent_name, self._services.agents())
            if unknown is not None:
                return Refused(unknown)
        return await self._handle_event(
            request.event,
            idempotency=request.idempotency,
            also=request.joint_write,
            removes=request.removes,
            has_caller=True,
        )

    async def _reevaluate(self) -> None:
        """Re-evaluate the session against the current tree.

        Deliver child notifications, start a queued turn.
        """
        with self._admission.notifications.pending_for(self.session) as event:
            await self._handle_event(event)
            # Release a reserved turn slot that was not used.
            self._admission.apply(self.session)
        # Sessions that wake each other must not starve other tasks.
        await trio.lowlevel.checkpoint()

    async def _report_silence(self) -> None:
        """Report silence as of now: there may have been progress since the timer was due."""
        event = self._liveness.silence_event(self.slot)
        if event is not None:
            await self._handle_event(event)
        self.session_timers.set_silence_check()

    async def _handle_report(self, report: DriverReport) -> None:
        """Handle an event from the current driver or from a closing one."""
        if self.agent_runner.accept_report(report):
            more = output_fields(report.event, self.session, self.log)
            await self._handle_event(report.event, more=more)

    def _may_stop(self) -> bool:
        return (
            self.session.is_inactive
            and self.agent_runner.has_no_agent
            and not self._has_degraded_steps
            and self.session.zombie is None
            and not self._admission.needs_recheck(self.slot.id)
        )
