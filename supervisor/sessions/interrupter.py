"""Interrupts of sessions and trees: send the requests, wait for the ends, return the report.

Rule 1: the rules of each session decide what is interrupted, and when a target is unreachable;
        this module only waits for the state that shows it.
Rule 2: a tree interrupt runs in its own task, so that a cancelled caller leaves nothing half
        done. No session of the tree can spawn until that task has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.errors import (
    QueueFull,
    SessionNotActive,
    SessionNotFound,
    StoreDegraded,
    SupervisorError,
)
from supervisor.core.ids import SessionId
from supervisor.core.log_content import error_content
from supervisor.core.receipts import InterruptReport
from supervisor.core.state import LadderStep, SessionState
from supervisor.core.step import InterruptPending
from supervisor.core.tree.tree_interrupt import (
    TreeInterrupt,
    has_started,
    is_about_to_run,
    merge_reports,
)

from .admission import Admission
from .registry import SessionRegistry
from .router import SessionRouter
from .services import Services

logger = logging.getLogger("supervisor")


class Interrupter:
    """Interrupts one session or a tree, and waits until the targets have ended."""

    def __init__(
        self,
        services: Services,
        registry: SessionRegistry,
        router: SessionRouter,
        admission: Admission,
    ) -> None:
        self._services = services
        self._registry = registry
        self._router = router
        self._admission = admission

    async def interrupt(
        self,
        session_id: SessionId,
        event: ev.InterruptRequested | ev.MemberInterruptRequested,
        name: str,
    ) -> InterruptReport:
        """Interrupt the target of the event in one session, and wait until it has ended."""
        answer = await self._router.ask(session_id, event, urgent=True)
        if isinstance(answer, InterruptReport):
            if answer.already_over and await self._was_never_there(session_id, event):
                return InterruptReport(name, unknown=1)
            return attrs.evolve(answer, scope=name)
        accepted = event.replacement if isinstance(event, ev.InterruptRequested) else None
        if not isinstance(answer, InterruptPending):
            # The incarnation that accepted the request has ended, and the turn ended with it.
            return InterruptReport(name, matched=1, stopped=1, input_id=accepted)
        report = await self._wait(session_id, answer, name)
        return attrs.evolve(report, input_id=accepted)

    async def _was_never_there(
        self, session_id: SessionId, event: ev.InterruptRequested | ev.MemberInterruptRequested
    ) -> bool:
        """Return True if the session never had the turn or call that the event names.

        Raise StoreDegraded if that is not known, because the records cannot be read.
        """
        if isinstance(event, ev.MemberInterruptRequested):
            return False
        # The pending records first: they may be written, and then removed, during the read.
        if self._services.health.ran_unwritten(session_id, event.turn, event.call):
            return False
        return not await self._services.store.ran(session_id, event.turn, event.call)

    async def _wait(
        self, session_id: SessionId, pending: InterruptPending, name: str
    ) -> InterruptReport:
        """Wait until the target has ended or is unreachable; return the report."""
        step: LadderStep | None = "ask"

        def is_over(session: SessionState) -> bool:
            nonlocal step
            turn = session.turn
            if turn is None or turn.id != pending.turn:
                return True
            step = turn.step
            if pending.call is None:
                return False
            call = turn.find_call(pending.call)
            return call is None or call.interrupt == "unreachable"

        session = await self._registry.wait_until(session_id, is_over)
        unreachable = session.zombie == pending.turn
        if pending.call is not None:
            turn = session.turn
            is_open = turn is not None and turn.find_call(pending.call) is not None
            unreachable = unreachable or is_open
            step = None
        return InterruptReport(
            name,
            matched=1,
            stopped=int(not unreachable),
            unreachable=int(unreachable),
            ladder_step=step,
        )

    # Trees --------------------------------------------------------------------------------

    async def interrupt_tree(
        self, session_id: SessionId, event: ev.TreeInterruptRequested
    ) -> InterruptReport:
        """Interrupt a session and its descendants.

        The interrupt continues if the caller is cancelled. Raise the refusal of the replacement; if
        the named session refuses it at once, nothing is interrupted.
        """
        return await self._services.detached_tasks.run_detached(
            self._interrupt_tree, session_id, event
        )

    async def _interrupt_tree(
        self, session_id: SessionId, event: ev.TreeInterruptRequested
    ) -> InterruptReport:
        top = self._admission.tree.add(await self._registry.row(session_id))
        # Before the levels are read: a session that was spawned since would be in none.
        with self._admission.closed_to_spawns(top):
            accepted = await self._router.ask(session_id, event, urgent=True)
            assert isinstance(accepted, TreeInterrupt)
            reports: list[InterruptReport] = []
            for level in accepted.levels:
                reports += await self._interrupt_level(level, event.interrupt)
            own = event.interrupt.changed(**self._services.stamp())
            try:
                reports.append(await self.interrupt(session_id, own, "tree"))
            finally:
                report = await self._end(session_id, event.interrupt.reason, reports)
        return report

    async def _interrupt_level(
        self, members: Iterable[SessionId], event: ev.InterruptRequested
    ) -> list[InterruptReport]:
        reports: list[InterruptReport] = []

        async def interrupt_member(member_id: SessionId) -> None:
            reports.append(await self._interrupt_member(member_id, event))

        async with trio.open_nursery() as nursery:
            for member_id in members:
                nursery.start_soon(interrupt_member, member_id)
        return reports

    async def _interrupt_member(
        self, member_id: SessionId, event: ev.InterruptRequested
    ) -> InterruptReport:
        """Interrupt one descendant.

        Unless its queue is cancelled, a turn that is about to start is waited for, and interrupted.
        An error is added to the report and affects no other descendant.
        """
        try:
            row = await self._registry.row(member_id)
            # With `queued="cancel"` the request itself prevents the turn that would start.
            if event.queued == "keep" and is_about_to_run(row):
                with trio.move_on_after(row.terms.ladder.total_seconds):
                    await self._registry.wait_until(member_id, has_started)
            request = ev.MemberInterruptRequested(
                reason=event.reason, queued=event.queued, **self._services.stamp()
            )
            return await self.interrupt(member_id, request, "tree")
        except (SessionNotFound, SessionNotActive):
            return InterruptReport("tree")  # deleted or stopped
        except SupervisorError:
            return InterruptReport("tree", matched=1, unreachable=1)

    async def _end(
        self, session_id: SessionId, reason: str | None, reports: Iterable[InterruptReport]
    ) -> InterruptReport:
        """Ask the named session to record the outcome, and return the report.

        An error of the store does not fail the interrupt, because the turns have ended.
        """
        report = merge_reports(reports)
        ended = ev.TreeInterruptEnded(reason=reason, report=report, **self._services.stamp())
        try:
            await self._router.ask(session_id, ended, urgent=True)
        except (StoreDegraded, QueueFull):
            self._router.tell_eventually(session_id, ended)
        except SupervisorError as error:  # deleted, or its actor fails
            logger.warning(
                "interrupt of tree %s may not be on record: %s", session_id, error_content(error)
            )
        return report
