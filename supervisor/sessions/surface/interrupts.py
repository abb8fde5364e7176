"""An interrupt from the caller's side: ask, wait until the target is over, and say how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.errors import ConfigError, shown
from supervisor.core.ids import CallId, InputId, SessionId, TurnId
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
    replacement = InputId(house.ids.new("in")) if replace_with is not None else None
    event = ev.InterruptRequested(
        turn=TurnId(exact(scope.id)) if isinstance(scope, TurnScope) else None,
        call=CallId(exact(scope.id)) if isinstance(scope, ToolCall) else None,
        reason=reason,
        replacement=replacement,
        replace_with=None if replace_with is None else exact(replace_with),
        queued=queued,
        **house.stamp(),
    )
    answer = await house.tree.ask(session_id, event, urgent=True)
    if isinstance(answer, InterruptReport):
        return attrs.evolve(answer, scope=name, seconds=trio.current_time() - began)
    if not isinstance(answer, UnderWay):
        # An incarnation that ended has accepted the replacement; its turn is lost by that.
        return InterruptReport(name, matched=1, stopped=1)
    report = await _report(house, session_id, answer, name)
    return attrs.evolve(report, seconds=trio.current_time() - began)


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
