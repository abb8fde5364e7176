"""Steps adopted in memory while the store is degraded, and not yet durable.

Rule 1: effects that only reduce activity are performed at once. An effect that grants work, and the
        reply to its request, wait until the step is durable; and so does its publication.
Rule 2: a waiting effect that is cancelled meanwhile is never performed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from actors import ActorStopped, Later, MailboxFull, Ref
from supervisor.core.agent_events import TurnEnded
from supervisor.core.degraded import cancels_pending, effect_target, grants_work, reduces_activity
from supervisor.core.effects import CancelTurn, Effect
from supervisor.core.errors import SupervisorError
from supervisor.core.events import Event
from supervisor.core.ids import TurnId
from supervisor.core.step import Accepted, Refused, Reply, Step
from supervisor.store.pending import PendingWrite
from supervisor.store.port import StoredReply

from .idempotency import key_conflict
from .log import Log, WriteFailed
from .services import Services

_RETRY_SECONDS: Final = 0.05


@attrs.frozen(eq=False)
class StepWritten:
    """Message to the actor: a step is durable, and its deferred effects may be performed."""

    log: Log  # of the incarnation that decided the step
    deferred: Sequence[Effect]


class StepReports:
    """Messages from the degraded steps of one incarnation to its actor."""

    __slots__ = ("_log", "_ref", "_services")

    def __init__(self, services: Services, ref: Ref, log: Log) -> None:
        self._services = services
        self._ref = ref
        self._log = log

    def end_turn(self, turn: TurnId) -> None:
        """Report the end of a turn that no driver received, as a driver would."""
        self._tell(
            TurnEnded(
                turn=turn,
                outcome="interrupted",
                stop_reason="cancelled",
                **self._services.stamp(),
            )
        )

    def on_written(
        self, last: int, refusal: SupervisorError | None, deferred: Sequence[Effect]
    ) -> None:
        """Report that a step is durable up to a seq, or was refused and never will be.

        The actor passes the deferred effects to `perform_deferred` itself, outside of the writer's
        task.
        """
        if refusal is None:
            self._log.mark_committed(last)
            self._tell(StepWritten(self._log, deferred))
        elif not self._services.is_shutting_down:
            self._tell(WriteFailed(self._log, refusal))

    def _tell(self, message: object) -> None:
        try:
            self._ref.tell(message, urgent=True)
        except MailboxFull:
            self._services.tasks.start_soon(self._retry_tell, message)
        except ActorStopped:
            pass

    async def _retry_tell(self, message: object) -> None:
        await trio.sleep(_RETRY_SECONDS)
        self._tell(message)


class DegradedSteps:
    """Adopted steps that are not durable; created with the first step whose write is pending."""

    __slots__ = (
        "_deferred",
        "_perform",
        "_reports",
        "_unwritten_replies",
        "is_closed",
        "unwritten_steps",
    )

    def __init__(self, perform: Callable[[Effect], None], reports: StepReports) -> None:
        self._perform = perform
        self._reports = reports
        # Number of adopted steps that are not durable.
        self.unwritten_steps = 0
        # Effects that wait until their step is durable, by target; cancelled effects are removed.
        self._deferred: dict[str, Effect] = {}
        # Replies that are not stored yet, by idempotency key.
        self._unwritten_replies: dict[str, tuple[StoredReply, Reply, PendingWrite]] = {}
        # True after the incarnation has ended: later callbacks are dropped.
        self.is_closed = False

    def adopt(
        self, event: Event, step: Step, held: PendingWrite, last: int, kept: StoredReply | None
    ) -> Reply | Later[Reply] | None:
        """Perform effects that reduce activity, defer the others.

        Return the reply, or a Later for it.
        """
        self.unwritten_steps += 1
        waits = [effect for effect in step.effects if grants_work(effect)]
        for effect in step.effects:
            if not grants_work(effect):
                self._perform_now(effect)
        for effect in waits:
            self._deferred[effect_target(effect)] = effect
        held.on_settled(partial(self._on_written, waits, last))
        if not isinstance(step.reply, Accepted) or reduces_activity(event):
            return step.reply
        if kept is not None:
            self._unwritten_replies[kept.key] = (kept, step.reply, held)
            held.on_settled(partial(self._drop_reply, kept.key))
        return _reply_when_written(held, step.reply)

    def find_unwritten_reply(self, key: str, fingerprint: str) -> Reply | Later[Reply] | None:
        """Return the reply to an accepted request that is not durable yet, or None."""
        if key not in self._unwritten_replies:
            return None
        kept, reply, held = self._unwritten_replies[key]
        if kept.fingerprint != fingerprint:
            return Refused(key_conflict(key))
        return _reply_when_written(held, reply)

    def _drop_reply(self, key: str, _: SupervisorError | None) -> None:
        del self._unwritten_replies[key]

    def _perform_now(self, effect: Effect) -> None:
        waited = (
            cancels_pending(effect) and self._deferred.pop(effect_target(effect), None) is not None
        )
        if waited and isinstance(effect, CancelTurn):
            self._reports.end_turn(effect.turn)
        else:
            self._perform(effect)

    def _on_written(self, waits: list[Effect], last: int, refusal: SupervisorError | None) -> None:
        """Report that a step is durable, or was refused and never will be."""
        if self.is_closed:
            return
        self.unwritten_steps -= 1
        self._reports.on_written(last, refusal, waits)

    def perform_deferred(self, waits: Sequence[Effect]) -> None:
        """Perform the deferred effects that were not cancelled."""
        for effect in waits:
            if self._deferred.get(effect_target(effect)) is effect:
                del self._deferred[effect_target(effect)]
                self._perform(effect)


def _reply_when_written(held: PendingWrite, reply: Reply) -> Later[Reply]:
    """Return a Later for the reply.

    If the step is never written, the exit of the actor fails it.
    """
    later: Later[Reply] = Later()
    held.on_settled(lambda refusal: later.answer(reply) if refusal is None else None)
    return later
