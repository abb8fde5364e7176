"""An interrupt from the caller's side: ask, wait until the target is over, and say how it went."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.errors import ConfigError, SessionNotActive, SessionNotFound, shown
from supervisor.core.ids import CallId, InputId, SessionId, TurnId
from supervisor.core.session import LadderStep
from supervisor.core.session import Session as Row
from supervisor.core.step import InterruptReport, UnderWay

from .checks import exact, known_word, some_text
from .shapes import Scope, ToolCall, TurnScope

if TYPE_CHECKING:
    from supervisor.sessions.house import House


async def interrupt(
    house: House,
    session_id: SessionId,
    scope: Scope,
    *,
    reason: str | None,
    replace_with: str | None,
    queued: Literal["keep", "cancel"],
) -> InterruptReport:
    """See `Session.interrupt`."""
    name = _scope_name(scope)
    known_word("queued", queued, Literal["keep", "cancel"])
    if reason is not None:
        reason = some_text("reason", reason)
    if isinstance(scope, ToolCall) and (replace_with is not None or queued == "cancel"):
        raise ConfigError(
            "a tool call is interrupted alone: nothing replaces it, and the queue stays",
            hint="interrupt the turn, or send() the text",
        )
    began = trio.current_time()
    event = ev.InterruptRequested(
        turn=TurnId(exact(scope.id)) if isinstance(scope, TurnScope) else None,
        call=CallId(exact(scope.id)) if isinstance(scope, ToolCall) else None,
        reason=reason,
        replacement=InputId(house.ids.new("in")) if replace_with is not None else None,
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
    answer = await house.tree.ask(session_id, event, urgent=True)
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
    reports: list[InterruptReport] = []

    async def interrupt_member(member_id: SessionId, *, is_top: bool) -> None:
        asked = event if is_top else attrs.evolve(event, replacement=None, replace_with=None)
        asked = attrs.evolve(asked, **house.stamp())
        with contextlib.suppress(SessionNotFound, SessionNotActive):  # deleted, or about to be
            reports.append(await _interrupt_one(house, member_id, asked, "tree"))

    top = house.desk.ledger.find(session_id)
    if top is None:
        return await _interrupt_one(house, session_id, event, "tree")
    with house.desk.closed_to_spawns(top):
        levels: dict[int, list[SessionId]] = {}
        for member in top.below():
            levels.setdefault(member.depth, []).append(member.id)
        for depth in sorted(levels, reverse=True):
            async with trio.open_nursery() as nursery:
                for member_id in levels[depth]:
                    if house.desk.runs(member_id):
                        nursery.start_soon(
                            functools.partial(interrupt_member, member_id, is_top=False)
                        )
        reports.append(await _interrupt_one(house, session_id, event, "tree"))
    return _together(reports)


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


def _scope_name(scope: Scope) -> str:
    match scope:
        case TurnScope(str()):
            return "turn"
        case ToolCall(str()):
            return "tool_call"
        case "turn" | "session" | "tree":
            return scope
    raise ConfigError(
        f"scope is {shown(scope)}",
        hint='give "turn", "session", "tree", TurnScope(id) or ToolCall(id)',
    )
