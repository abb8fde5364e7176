"""The four verbs of a session actor: decide, commit, adopt, perform.

Rule 1: nothing leaves the actor before its commit is durable: no record, no reply, no effect. The
        exception are effects that reduce activity while the store is degraded; see `degraded`.
Rule 2: nothing is decided here. Any `if` about a session's lifecycle belongs in the core.
Rule 3: if the outcome of a commit is unknown, this incarnation ends; the next one claims the row
        and continues from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, NoReturn, TypeAlias

from actors import Actor, ActorStopped, Later, StopActor
from supervisor.core import events as ev
from supervisor.core.degraded import reduces_activity
from supervisor.core.errors import Fenced
from supervisor.core.facts import AnyRecord
from supervisor.core.state import INACTIVE, SessionState
from supervisor.core.step import Refused, Reply
from supervisor.core.table import decide
from supervisor.core.tree.admission import EMPTY_TREE_VIEW
from supervisor.store.pending import PendingWrite
from supervisor.store.port import Write
from supervisor.store.writer_messages import Commit, WriteResult

from .admission import Admission
from .agent_runner import AgentRunner
from .degraded import DegradedSteps, StepReports
from .driver_context import DriverReport
from .event_output import NO_FIELDS
from .idempotency import SessionRequest, reply_to_store
from .log import Log
from .open_step import OpenStep
from .perform import Performer
from .refusals import store_degraded
from .services import Services
from .session_timers import SessionTimers
from .slot import SessionSlot

# A reply, a reply that follows later, or none.
StepReply: TypeAlias = Reply | Later[Reply] | None


class SessionSteps(Actor):
    """The steps of one incarnation of a session; `SessionActor` handles the messages.

    `schedule_input_expiry` sets the timer for queued inputs of a session whose actor stops idle.
    """

    __slots__ = (
        "_admission",
        "_context",
        "_degraded",
        "_is_commit_unknown",
        "_performer",
        "_schedule_input_expiry",
        "_services",
        "agent_runner",
        "log",
        "session",
        "session_timers",
        "slot",
    )

    session: SessionState  # this and the next five are set by `on_start`
    log: Log
    agent_runner: AgentRunner
    session_timers: SessionTimers
    _performer: Performer
    _context: Context  # of the task of this incarnation

    def __init__(
        self,
        slot: SessionSlot,
        services: Services,
        admission: Admission,
        schedule_input_expiry: Callable[[SessionState], None],
    ) -> None:
        self.slot = slot
        self._services = services
        self._admission = admission
        self._schedule_input_expiry = schedule_input_expiry
        # True while a commit is in progress or if its outcome is unknown. Then its reservations
        # stay until the next incarnation has read the row.
        self._is_commit_unknown = False
        # Exists since the store was first degraded; steps decided since may not be durable yet.
        self._degraded: DegradedSteps | None = None

    async def _handle_event(
        self, event: ev.Event, *, more: Mapping[str, Any] = NO_FIELDS
    ) -> StepReply:
        """Decide, commit, adopt and perform; return the reply.

        `more` are event fields that only the log has.
        """
        decided = self._decide(event, more=more)
        if not isinstance(decided, OpenStep):
            return decided
        try:
            written = await self._services.writer.ask(
                Commit(decided.write), timeout_seconds=math.inf
            )
        except ActorStopped as error:
            self._abort(error)
        return self._finish(decided, written)

    def _commit(
        self, decided: OpenStep | StepReply, report: DriverReport | None = None
    ) -> OpenStep | StepReply:
        """Send the write of the step to the writer; return the step, which pauses the actor.

        For a step without a commit, return its reply.
        """
        if type(decided) is OpenStep:
            decided.report = report
            try:
                self._services.writer.tell(decided)
            except ActorStopped as error:
                self._abort(error)
        elif report is not None:
            self._release_output(report)
        return decided

    def _on_written(self, decided: OpenStep, written: WriteResult | Exception) -> None:
        """Finish a step after its commit, in the task of the writer, and end the pause for it."""
        if decided.is_over:
            return  # this incarnation has ended, and the next one reads the row
        try:
            reply = self._finish(decided, written)
            if decided.report is not None:
                self._release_output(decided.report)
            if self._may_stop():
                self._stop_if_idle()
        except BaseException as error:  # noqa: BLE001 - raised in the task of this actor
            decided.crash(error)
        else:
            decided.end(reply)

    def _decide(
        self,
        event: ev.Event,
        request: SessionRequest | None = None,
        more: Mapping[str, Any] = NO_FIELDS,
    ) -> OpenStep | StepReply:
        """Decide; return the step to commit, or the reply of a step without a commit."""
        admission, session = self._admission, self.session
        # No await from here to the commit: a free slot is reserved before another step is decided.
        tree_view = admission.view(session, event)
        at = event.at
        if at < session.updated_at or at < self.log.last_at:  # a later one was handled first
            at = self._services.clock.now()
        if tree_view is not EMPTY_TREE_VIEW or at != event.at or more:
            event = event.changed(at=at, tree_view=tree_view, **more)
        step = decide(session, event, self.log.seq_before_step)
        also = removes = idempotency = None
        if request is not None and type(step.reply) is not Refused:
            also = request.joint_write
            idempotency, removes = request.idempotency, request.removes
        if step.facts or also is not None:
            admission.reserve(step.state)
            kept = reply_to_store(self.slot.id, idempotency, step.reply)
            records = self.log.add_facts(step.facts)
            self._is_commit_unknown = True
            write = Write(self.slot.id, self.log.epoch, records, step.state, kept, also, removes)
            return OpenStep(
                event,
                step,
                write,
                self.log.last_seq,
                on_written=self._on_written,
                context=self._context,
                has_caller=request is not None,
            )
        if self.slot.session is None:
            self.slot.adopt(step.state)
        for effect in step.effects:
            self._performer.perform(effect)
        return step.reply

    def _finish(self, decided: OpenStep, written: WriteResult | Exception) -> StepReply:
        """Adopt and perform a step after its commit; return the reply."""
        if isinstance(written, ActorStopped):
            self._abort(written)
        self._is_commit_unknown = False
        if written is not None:
            if isinstance(written, PendingWrite):
                return self._finish_degraded(decided, written)
            self._abort(written)
        step = decided.step
        self.session = step.state
        self.slot.adopt(step.state)
        self.log.mark_committed(decided.last_seq)
        self._admission.apply(step.state)
        for effect in step.effects:
            self._performer.perform(effect)
        return step.reply

    def _finish_degraded(self, decided: OpenStep, held: PendingWrite) -> StepReply:
        """Refuse the request while the store is degraded if possible, else adopt in memory."""
        may_refuse = (
            decided.has_caller
            and not reduces_activity(decided.event)
            and self.log.last_seq == decided.last_seq
        )
        if may_refuse and held.withdraw():
            self._withdraw_step(decided.write.records, len(decided.step.facts))
            return Refused(store_degraded(self._services.health))
        return self._adopt_degraded(decided, held)

    def _withdraw_step(self, records: Sequence[AnyRecord], decided: int) -> None:
        """Undo a step that is not written and has no later step."""
        self.log.withdraw(records, decided)
        if self.log.has_unsent:
            self._services.flusher.request_flush(self.log)
        self._admission.apply(self.session)

    def _adopt_degraded(self, decided: OpenStep, held: PendingWrite) -> StepReply:
        """Adopt a step in memory while the store is degraded; perform the permitted effects."""
        step = decided.step
        self.session = step.state
        self.slot.adopt(step.state)
        # Later writes that depend on this step follow it, because there is one writer.
        self._admission.apply(step.state)
        if self._degraded is None:
            reports = StepReports(self._services, self.ref, self.log)
            self._degraded = DegradedSteps(self._performer.perform, reports)
        kept = decided.write.stored_reply
        return self._degraded.adopt(decided.event, step, held, decided.last_seq, kept)

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

    def _release_output(self, report: DriverReport) -> None:
        """Let the output pass that was held until the report was handled."""
        if report.context.belongs_to(self.log):
            self.log.release_output()
            if self.log.has_output:
                self._services.flusher.request_flush(self.log)

    def _may_stop(self) -> bool:
        return (
            self.session.phase in INACTIVE
            and self.agent_runner.has_no_agent
            and not self._has_degraded_steps
            and self.session.zombie is None
            and not self._admission.needs_recheck(self.slot.id)
        )

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
