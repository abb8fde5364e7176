"""The tool `interrupt`: end a turn, tool calls, or all turns of a subtree; no session stops."""

from __future__ import annotations

from typing import Final, Literal

import attrs
import trio

from supervisor.core.errors import ConfigError, SupervisorError
from supervisor.core.receipts import InterruptReport
from supervisor.core.scopes import Scope, ToolCall, TurnScope
from supervisor.handles.session import Session
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    described,
)

_MAX_IDS: Final = 50


@attrs.frozen(kw_only=True)
class InterruptArguments:
    """The arguments of `interrupt`."""

    session: str = described("id, name or role of a session below yours")
    scope: Literal["turn", "tool_call", "session", "tree"] = described(
        "what to end: its turn, single tool calls, all that its agent runs, or all turns of it and"
        " the sessions below it",
        "turn",
    )
    ids: tuple[str, ...] = described(
        "of a turn: the turn, so that no later one is hit; of tool_call: the calls",
        (),
        maxItems=_MAX_IDS,
    )
    replace_with: str | None = described("text to run next, before its queue", None)
    reason: str | None = described("why, for the record", None)


@attrs.frozen(kw_only=True)
class InterruptAnswer:
    """The report of an interrupt: numbers of targets by what became of them."""

    session: str = described("the session that was named")
    scope: str = described("what was to end")
    matched: int = described("turns or calls in the scope")
    stopped: int = described("that ended")
    already_over: int = described("that had ended before")
    stale: int = described("that belong to an earlier time")
    unreachable: int = described("could not be ended: interrupt the turn instead")
    unknown: int = described("the session never had such a turn or call")
    ladder_step: str | None = described("the hardest step: ask, close, terminate or kill", None)
    seconds: float = described("how long it took")
    input: str | None = described("the id of the input made of replace_with", None)


async def _run(context: ToolContext, given: InterruptArguments) -> Answered:
    target = await context.find_below(given.session)
    scopes = _scopes(given)
    if given.replace_with is not None:
        await context.subtree.working_session()  # raises unless a turn gives the work
    reports = await _interrupt_all(context.subtree.session(target), scopes, given)
    answer = InterruptAnswer(
        session=target,
        scope=given.scope,
        matched=sum(one.matched for one in reports),
        stopped=sum(one.stopped for one in reports),
        already_over=sum(one.already_over for one in reports),
        stale=sum(one.stale for one in reports),
        unreachable=sum(one.unreachable for one in reports),
        unknown=sum(one.unknown for one in reports),
        ladder_step=_hardest(reports),
        seconds=round(max(one.seconds for one in reports), 3),
        input=reports[0].input_id,
    )
    return answer, f"{answer.stopped} of {answer.matched} ended, {answer.already_over} were over"


async def _interrupt_all(
    session: Session, scopes: list[Scope], given: InterruptArguments
) -> list[InterruptReport]:
    """Interrupt the scopes at the same time; return their reports, or raise the first error."""
    outcomes: list[InterruptReport | SupervisorError] = []

    async def one(scope: Scope) -> None:
        try:
            report = await session.interrupt(scope, given.reason, replace_with=given.replace_with)
            outcomes.append(report)
        except SupervisorError as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        for scope in scopes:
            nursery.start_soon(one, scope)
    for error in outcomes:
        if isinstance(error, SupervisorError):
            raise error
    return [one for one in outcomes if isinstance(one, InterruptReport)]


def _scopes(given: InterruptArguments) -> list[Scope]:
    """Return the scopes to interrupt, one after the other; raise ConfigError if ids do not fit."""
    match given.scope, given.ids:
        case "tool_call", ():
            raise ConfigError("ids is empty", hint="give the ids of the calls; read tools has them")
        case "tool_call", ids:
            if given.replace_with is not None:
                raise ConfigError(
                    "replace_with does not apply to tool calls",
                    hint="interrupt the turn, or send the text",
                )
            return [ToolCall(one) for one in dict.fromkeys(ids)]
        case scope, ():
            return [scope]
        case "turn", (turn,):
            return [TurnScope(turn)]
        case _:
            raise ConfigError(
                f"ids has {len(given.ids)} items for the scope {given.scope}",
                hint="a turn has one id; session and tree have none",
            )


def _hardest(reports: list[InterruptReport]) -> str | None:
    steps = ("ask", "close", "terminate", "kill")
    taken = [one.ladder_step for one in reports if one.ladder_step is not None]
    return max(taken, key=steps.index, default=None)


TOOL: Final = SessionTool(
    name="interrupt",
    title="Interrupt work",
    description=(
        "End the running turn of a session below yours, single tool calls of it, or the turns of a"
        " whole subtree. The session stays and takes further input. Returns when it is over."
    ),
    arguments=InterruptArguments,
    answer=InterruptAnswer,
    run=_run,
    is_destructive=True,
)
