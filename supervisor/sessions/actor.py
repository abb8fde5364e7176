"""The session actor: its start, its messages and its end; `session_steps` has the steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import trio

from actors import NOT_NOW, ActorStopped
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.errors import StoreDegraded
from supervisor.core.state import Phase, SessionState
from supervisor.core.step import Refused
from supervisor.store.port import Stored

from .admission import Admission
from .agent_runner import AgentRunner
from .degraded import StepWritten
from .driver_context import DriverReport, MakeContext
from .event_output import is_large, output_fields
from .hooks.blocking import BlockingHooks
from .idempotency import SessionRequest, find_known_reply
from .liveness import Liveness
from .log import Log, WriteFailed
from .open_step import OpenStep
from .output_budget import LARGE_BYTES
from .perform import Performer
from .refusals import session_not_found, unknown_agent_problem
from .services import Services
from .session_steps import SessionSteps, StepReply
from .session_timers import STOP_IF_IDLE, SessionTimers
from .slot import RECHECK, SessionSlot


class SessionActor(SessionSteps):
    """One incarnation of a session; state that outlives it is in the slot and in the store."""

    __slots__ = ("_hooks", "_liveness", "_make_context")

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
        super().__init__(slot, services, admission, schedule_input_expiry)
        self._liveness = liveness
        self._hooks = hooks
        self._make_context = make_context

    async def on_start(self) -> None:
        try:
            stored = await self._services.writer.ask(self.slot.claim(), timeout_seconds=math.inf)
        except ActorStopped as error:
            self._abort(error)
        except StoreDegraded:
            await trio.lowlevel.checkpoint_if_cancelled()  # a cancelled start is not a crash
            raise
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
        self._context = trio.lowlevel.current_task().context
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
        """Handle a message; if its step is committed, the rest follows in `_on_written`.

        So a commit costs no switch to the actor's task: the usual messages, requests and reports of
        drivers, pause the actor until the writer calls `_on_written`.
        """
        answer = self.receive_now(message)
        if answer is not NOT_NOW:
            return answer
        reply: OpenStep | StepReply = None
        if type(message) is SessionRequest:
            reply = await self._handle_repeated_request(message)
        elif type(message) is DriverReport:
            reply = await self._handle_report_of_long_turn(message)
        elif message is not STOP_IF_IDLE:
            await self._handle_internal(message)
        if type(reply) is not OpenStep and self._may_stop():
            self._stop_if_idle()
        return reply

    def receive_now(self, message: Any) -> Any:  # noqa: ANN401 - an actor's mailbox
        """Handle a usual request or report, which has to wait for nothing but its commit."""
        reply: OpenStep | StepReply
        if type(message) is SessionRequest:
            if message.idempotency is not None or message.is_retry:
                return NOT_NOW
            reply = self._handle_new_request(message)
        elif type(message) is DriverReport:
            output = self.log.turn_buffer
            if output is not None and output.bytes > LARGE_BYTES:
                return NOT_NOW
            reply = self._handle_report(message)
        else:
            return NOT_NOW
        if type(reply) is not OpenStep and self._may_stop():
            self._stop_if_idle()
        return reply

    async def _handle_internal(self, message: Any) -> None:  # noqa: ANN401 - see `receive`
        """Handle a message without a reply: from a timer, the flusher, admission or a caller."""
        if message is RECHECK:
            await self._reevaluate()
        elif type(message) is agent_events.LadderElapsed:
            more = output_fields(message, self.session, self.log)
            if is_large(more, self.log):
                await self._handle_large_event(message)
            else:
                await self._handle_event(message, more=more)
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

    # Messages ---------------------------------------------------------------------------------

    async def _handle_repeated_request(self, request: SessionRequest) -> OpenStep | StepReply:
        """Handle a request that may have been carried out before."""
        repeated = request.idempotency
        if repeated is not None and self._degraded is not None:
            owed = self._degraded.find_unwritten_reply(repeated.key, repeated.fingerprint)
            if owed is not None:
                return owed
        try:
            known = await find_known_reply(self._services, self.session, request)
        except StoreDegraded as error:  # the lookup failed, so the earlier reply is unknown
            return Refused(error)
        if known is not None:
            return known
        return self._handle_new_request(request)

    def _handle_new_request(self, request: SessionRequest) -> OpenStep | StepReply:
        if self.session.phase is Phase.SUSPENDED and type(request.event) is ev.InputSubmitted:
            # For a stopped session admission refuses the input. A live session keeps its agent.
            unknown = unknown_agent_problem(self.session.agent_name, self._services.agents)
            if unknown is not None:
                return Refused(unknown)
        return self._commit(self._decide(request.event, request))

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

    def _handle_report(self, report: DriverReport) -> OpenStep | StepReply:
        """Handle an event from the current driver or from a closing one."""
        if not self.agent_runner.accept_report(report):
            self._release_output(report)
            return None
        more = output_fields(report.event, self.session, self.log)
        return self._commit(self._decide(report.event, more=more), report)

    async def _handle_report_of_long_turn(self, report: DriverReport) -> OpenStep | StepReply:
        """Handle a report of a turn with much output, whose step may be large."""
        event = report.event
        if not is_large(output_fields(event, self.session, self.log), self.log):
            return self._handle_report(report)
        if self.agent_runner.accept_report(report):
            await self._handle_large_event(event)
        self._release_output(report)
        return None

    async def _handle_large_event(self, event: ev.Event) -> None:
        """Handle an event with much output after the large steps of other sessions."""
        async with self._services.output_budget.large_step():
            # Now, because text may have arrived meanwhile.
            more = output_fields(event, self.session, self.log)
            await self._handle_event(event, more=more)
