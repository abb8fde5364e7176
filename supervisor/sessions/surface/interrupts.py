"""An interrupt from the caller's side: ask, wait until the target is over, and say how it went."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal, get_args

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
from supervisor.core.rules.door import queue_problem, text_problem
from supervisor.core.session import LadderStep, Phase, Source
from supervisor.core.session import Session as Row
from supervisor.core.step import UnderWay

from .checks import checked_prompt, exact, known_word, scope_name, some_text
from .sending import show_to_hooks
from .shapes import Scope, ToolCall, TurnScope

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


async def interrupt(
    house: House,
    session_id: SessionId,
    scope: Scope,
    *,
    reason: str | None,
    replace_with: str | None,
    queued: Literal["keep", "cancel"],
    source: Source = "user",
) -> InterruptReport:
    """See `Session.interrupt`."""
    name = scope_name(scope)
    known_word("queued", queued, Literal["keep", "cancel"])
    if reason is not None:
        reason = some_text("reason", reason)
    if replace_with is not None:
        checked_prompt(replace_with)
    if isinstance(scope, ToolCall) and (replace_with is not None or queued == "cancel"):
        raise ConfigError(
            "a tool call is interrupted alone: nothing replaces it, and the queue stays",
            hint="interrupt the turn, or send the text",
        )
    began = trio.current_time()
    replacement = None if replace_with is None else InputId(house.ids.new("in"))
    expires_at: float | None = None
    if replacement is not None and replace_with is not None:
        expires_at = await show_to_hooks(
            house,
            session_id,
            replacement,
            exact(replace_with),
            when_busy="interrupt",
            source=source,
        )
    event = ev.InterruptRequested(
        turn=TurnId(exact(scope.id)) if isinstance(scope, TurnScope) else None,
        call=CallId(exact(scope.id)) if isinstance(scope, ToolCall) else None,
        whole=scope in ("session", "tree"),
        reason=reason,
        replacement=replacement,
        replacement_expires_at=expires_at,
        replace_with=None if replace_with is None else exact(replace_with),
        queued=queued,
        **house.stamp(),
    )
    if scope == "tree":
        report = await house.works.carry_through(_interrupt_tree, house, session_id, event)
    else:
        report = await _interrupt_one(house, session_id, event, name)
    return attrs.evolve(report, seconds=trio.current_time() - began)


async def _interrupt_one(
    house: House, session_id: SessionId, event: ev.InterruptRequested, name: str
) -> InterruptReport:
    """Interrupt what the event names in one session, and wait until that is over."""
    answer = await house.lines.ask(session_id, event, urgent=True)
    if isinstance(answer, InterruptReport):
        return attrs.evolve(answer, scope=name)
    if not isinstance(answer, UnderWay):
        # An incarnation that ended has accepted the replacement; its turn is lost by that.
        return InterruptReport(name, matched=1, stopped=1)
    return await _report(house, session_id, answer, name)


async def _interrupt_tree(
    house: House, session_id: SessionId, event: ev.InterruptRequested
) -> InterruptReport:
    """Level by level from the bottom, each level at once; nobody has children meanwhile."""
    row = await house.tree.row(session_id)
    _refuse_replacement(row, event)  # before anybody below is touched
    top = house.desk.ledger.enter(row)
    below = attrs.evolve(event, replacement=None, replace_with=None)
    reports: list[InterruptReport] = []

    async def interrupt_member(member_id: SessionId) -> None:
        reports.append(await _interrupt_below(house, member_id, below))

    with house.desk.closed_to_spawns(top):
        levels: dict[int, list[SessionId]] = {}
        for member in top.below():
            levels.setdefault(member.depth, []).append(member.id)
        for depth in sorted(levels, reverse=True):
            async with trio.open_nursery() as nursery:
                for member_id in levels[depth]:
                    nursery.start_soon(interrupt_member, member_id)
        reports.append(await _interrupt_one(house, session_id, event, "tree"))
    return _together(reports)


async def _interrupt_below(
    house: House, session_id: SessionId, event: ev.InterruptRequested
) -> InterruptReport:
    """Interrupt one of many: what goes wrong with it is reported, and hinders nobody else."""
    event = attrs.evolve(event, **house.stamp())
    try:
        row = await house.tree.row(session_id)
        if row.phase in (Phase.STARTING, Phase.RESTARTING) and row.inputs:
            # What it is to do begins as soon as its agent is up.
            with trio.move_on_after(row.terms.ladder.total_seconds):
                row = await house.tree.wait_until(session_id, _is_up)
        if event.queued == "cancel" and row.turn is None:
            for waiting in row.inputs:
                with contextlib.suppress(InputRefused):
                    withdrawn = ev.InputWithdrawn(input=waiting.id, **house.stamp())
                    await house.lines.ask(session_id, withdrawn, urgent=True)
        if row.turn is None:
            return InterruptReport("tree")
        return await _interrupt_one(house, session_id, event, "tree")
    except (SessionNotFound, SessionNotActive):
        return InterruptReport("tree")  # deleted, or over
    except SupervisorError:
        return InterruptReport("tree", matched=1, unreachable=1)


def _is_up(session: Row) -> bool:
    return session.phase not in (Phase.STARTING, Phase.RESTARTING)


def _refuse_replacement(row: Row, event: ev.InterruptRequested) -> None:
    """Raise if what is to replace the turn at the top could not be accepted."""
    if event.replace_with is not None and row.turn is not None:
        full = queue_problem(row) if event.queued == "keep" else None
        problem = text_problem(row, event.replace_with) or full
        if problem is not None:
            raise problem


def _together(reports: list[InterruptReport]) -> InterruptReport:
    """One report for all: their numbers added, and the hardest step that was taken."""
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


async def _report(
    house: House, session_id: SessionId, under_way: UnderWay, name: str
) -> InterruptReport:
    """Wait until the target is over, or the ladder at its end."""
    turn, call = under_way.turn, under_way.call
    step: Any = "ask"

    def is_over(session: Row) -> bool:
        nonlocal step
        if session.turn is None or session.turn.id != turn:
            return True
        step = session.turn.step
        return call is not None and all(one.id != call for one in session.turn.calls)

    if call is not None:
        ladder = (await house.tree.row(session_id)).terms.ladder
        with trio.move_on_after(ladder.ask_seconds) as patience:
            await house.tree.wait_until(session_id, is_over)
        reached = not patience.cancelled_caught
    else:
        session = await house.tree.wait_until(session_id, is_over)
        reached = session.zombie != turn
    return InterruptReport(
        name,
        matched=1,
        stopped=int(reached),
        unreachable=int(not reached),
        ladder_step=None if call is not None else step,
    )
