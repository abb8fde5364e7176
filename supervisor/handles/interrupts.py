"""Interrupts from the caller's side: request one, wait until the target has ended, report."""

from __future__ import annotations

import contextlib
from typing import Literal, get_args

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.errors import (
    ConfigError,
    InputRefused,
    SessionNotActive,
    SessionNotFound,
    SupervisorError,
)
from supervisor.core.ids import CallId, InputId, SessionId, TurnId
from supervisor.core.receipts import InterruptReport
from supervisor.core.rules.refusals import queue_problem, text_problem
from supervisor.core.scopes import Scope, ToolCall, TurnScope
from supervisor.core.state import LadderStep, Phase, Source
from supervisor.core.state import SessionState as Row
from supervisor.core.step import InterruptPending
from supervisor.core.validation import check_choice, check_prompt, check_text, exact_str

from .arguments import check_scope
from .parts import Parts
from .submission import run_input_hooks


async def interrupt(
    parts: Parts,
    session_id: SessionId,
    scope: Scope,
    *,
    reason: str | None,
    replace_with: str | None,
    queued: Literal["keep", "cancel"],
    source: Source = "user",
) -> InterruptReport:
    """Interrupt a scope of a session and return the report; see `Session.interrupt`."""
    name = check_scope(scope)
    check_choice("queued", queued, Literal["keep", "cancel"])
    if reason is not None:
        reason = check_text("reason", reason)
    if replace_with is not None:
        check_prompt(replace_with)
    if isinstance(scope, ToolCall) and (replace_with is not None or queued == "cancel"):
        raise ConfigError(
            "replace_with and queued do not apply to the scope of a tool call",
            hint="interrupt the turn, or send the text",
        )
    began = trio.current_time()
    replacement = None if replace_with is None else InputId(parts.services.ids.new("in"))
    expires_at: float | None = None
    if replacement is not None and replace_with is not None:
        expires_at = await run_input_hooks(
            parts,
            session_id,
            replacement,
            exact_str(replace_with),
            when_busy="interrupt",
            source=source,
        )
    event = ev.InterruptRequested(
        turn=TurnId(exact_str(scope.id)) if isinstance(scope, TurnScope) else None,
        call=CallId(exact_str(scope.id)) if isinstance(scope, ToolCall) else None,
        whole=scope in ("session", "tree"),
        reason=reason,
        replacement=replacement,
        replacement_expires_at=expires_at,
        replace_with=None if replace_with is None else exact_str(replace_with),
        queued=queued,
        **parts.services.stamp(),
    )
    if scope == "tree":
        report = await parts.services.detached_tasks.run_detached(
            _interrupt_tree, parts, session_id, event
        )
    else:
        report = await _interrupt_one(parts, session_id, event, name)
    return attrs.evolve(report, seconds=trio.current_time() - began)


async def _interrupt_one(
    parts: Parts, session_id: SessionId, event: ev.InterruptRequested, name: str
) -> InterruptReport:
    """Interrupt the target of the event in one session, and wait until it has ended."""
    answer = await parts.router.ask(session_id, event, urgent=True)
    if isinstance(answer, InterruptReport):
        return attrs.evolve(answer, scope=name)
    if not isinstance(answer, InterruptPending):
        # The incarnation that accepted the replacement has ended, and its turn ended with it.
        return InterruptReport(name, matched=1, stopped=1)
    return await _wait_and_report(parts, session_id, answer, name)


async def _interrupt_tree(
    parts: Parts, session_id: SessionId, event: ev.InterruptRequested
) -> InterruptReport:
    """Interrupt a tree level by level from the deepest, the sessions of a level concurrently.

    No session of the tree can spawn until it is over.
    """
    row = await parts.registry.row(session_id)
    _refuse_replacement(row, event)  # before any descendant is interrupted
    top = parts.admission.tree.add(row)
    below = attrs.evolve(event, replacement=None, replace_with=None)
    reports: list[InterruptReport] = []

    async def interrupt_member(member_id: SessionId) -> None:
        reports.append(await _interrupt_descendant(parts, member_id, below))

    with parts.admission.closed_to_spawns(top):
        levels: dict[int, list[SessionId]] = {}
        for member in top.iter_descendants():
            levels.setdefault(member.depth, []).append(member.id)
        for depth in sorted(levels, reverse=True):
            async with trio.open_nursery() as nursery:
                for member_id in levels[depth]:
                    nursery.start_soon(interrupt_member, member_id)
        reports.append(await _interrupt_one(parts, session_id, event, "tree"))
    return _merge_reports(reports)


async def _interrupt_descendant(
    parts: Parts, session_id: SessionId, event: ev.InterruptRequested
) -> InterruptReport:
    """Interrupt one descendant; an error becomes part of the report and stops no other one."""
    event = attrs.evolve(event, **parts.services.stamp())
    try:
        row = await parts.registry.row(session_id)
        if row.phase in (Phase.STARTING, Phase.RESTARTING) and row.inputs:
            # Its first turn starts as soon as its agent is up: wait for it, then interrupt it.
            with trio.move_on_after(row.terms.ladder.total_seconds):
                row = await parts.registry.wait_until(session_id, _has_started)
        if event.queued == "cancel" and row.turn is None:
            for waiting in row.inputs:
                with contextlib.suppress(InputRefused):
                    withdrawn = ev.InputWithdrawn(input=waiting.id, **parts.services.stamp())
                    await parts.router.ask(session_id, withdrawn, urgent=True)
        if row.turn is None:
            return InterruptReport("tree")
        return await _interrupt_one(parts, session_id, event, "tree")
    except (SessionNotFound, SessionNotActive):
        return InterruptReport("tree")  # deleted or stopped
    except SupervisorError:
        return InterruptReport("tree", matched=1, unreachable=1)


def _has_started(session: Row) -> bool:
    return session.phase not in (Phase.STARTING, Phase.RESTARTING)


def _refuse_replacement(row: Row, event: ev.InterruptRequested) -> None:
    """Raise the refusal if the session could not accept the replacement input."""
    if event.replace_with is not None and row.turn is not None:
        full = queue_problem(row) if event.queued == "keep" else None
        problem = text_problem(row, event.replace_with) or full
        if problem is not None:
            raise problem


def _merge_reports(reports: list[InterruptReport]) -> InterruptReport:
    """Return one report with the sums of all reports and the highest ladder step."""
    steps = [step for step in get_args(LadderStep) if any(r.ladder_step == step for r in reports)]
    return InterruptReport(
        "tree",
        matched=sum(report.matched for report in reports),
        stopped=sum(report.stopped for report in reports),
        already_over=sum(report.already_over for report in reports),
        stale=sum(report.stale for report in reports),
        unreachable=sum(report.unreachable for report in reports),
        ladder_step=steps[-1] if steps else None,
    )


async def _wait_and_report(
    parts: Parts, session_id: SessionId, pending: InterruptPending, name: str
) -> InterruptReport:
    """Wait until the target has ended or is unreachable; return the report."""
    step: LadderStep | None = "ask"

    def is_over(session: Row) -> bool:
        nonlocal step
        turn = session.turn
        if turn is None or turn.id != pending.turn:
            return True
        step = turn.step
        if pending.call is None:
            return False
        call = turn.find_call(pending.call)
        return call is None or call.interrupt == "unreachable"

    session = await parts.registry.wait_until(session_id, is_over)
    if pending.call is None:
        unreachable = session.zombie == pending.turn
    else:
        turn = session.turn
        unreachable = turn is not None and turn.find_call(pending.call) is not None
        step = None
    return InterruptReport(
        name,
        matched=1,
        stopped=int(not unreachable),
        unreachable=int(unreachable),
        ladder_step=step,
    )
