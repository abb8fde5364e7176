"""`understudy interrupt`: interrupt exactly the named scope."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.failures import ERROR, OK
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.progress_bar import progress
from supervisor.cli.target import find_id, find_session, open_target
from supervisor.cli.text_format import format_duration

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.receipts import InterruptReport
    from supervisor.core.scopes import Scope
    from supervisor.handles.session import Session


@click.command()
@click.argument("session", metavar="ID")
@click.option("--call", metavar="CALL", help="Only this tool call (ids: `understudy log`).")
@click.option("--turn", metavar="TURN", help="Only this turn (default: the running one).")
@click.option("--session", "whole", is_flag=True, help="The turn and all work of its agent.")
@click.option("--tree", is_flag=True, help="This session and all its descendants.")
@click.option("--reason", metavar="TEXT", help="The reason, for the record.")
@click.option("--replace-with", metavar="TEXT", help="An input to run instead.")
@click.option("--cancel-queued", is_flag=True, help="Also cancel the queued inputs.")
@json_option
def interrupt(*, session: str, cancel_queued: bool, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Interrupt the running turn, or exactly the scope you name; no session is stopped.

    Exits with 1 if the agent cannot interrupt that scope.
    """
    screen = Screen(as_json=as_json)
    named = [name for name in ("call", "turn", "whole", "tree") if options[name]]
    if len(named) > 1:
        raise click.UsageError("Give one of --call, --turn, --session and --tree.")
    asked = {
        "reason": options["reason"],
        "replace_with": options["replace_with"],
        "queued": "cancel" if cancel_queued else "keep",
    }
    return run_async(screen, partial(_interrupt, screen, session, _scope(options), asked))


def _scope(options: dict[str, Any]) -> Scope:
    from supervisor.core.scopes import ToolCall, TurnScope  # noqa: PLC0415 - late

    if options["call"]:
        return ToolCall(options["call"])
    if options["turn"]:
        return TurnScope(options["turn"])
    if options["tree"]:
        return "tree"
    return "session" if options["whole"] else "turn"


async def _interrupt(screen: Screen, session: str, scope: Scope, asked: dict[str, Any]) -> int:
    async with open_target(screen) as sup, progress(screen, "interrupting"):
        found = await find_session(sup, session)
        report = await found.interrupt(await _whole(sup, found, scope), **asked)
    if screen.as_json:
        screen.data(report)
    else:
        _show(screen, session, report, scope, asked["replace_with"])
    return ERROR if report.unreachable else OK


async def _whole(sup: Target, session: Session, scope: Scope) -> Scope:
    """Return the scope with the whole id of its turn or call."""
    from supervisor.core.scopes import ToolCall, TurnScope  # noqa: PLC0415 - late

    if isinstance(scope, ToolCall):
        return ToolCall(await find_id(sup, "call", scope.id, session=session))
    if isinstance(scope, TurnScope):
        return TurnScope(await find_id(sup, "turn", scope.id, session=session))
    return scope


def _show(
    screen: Screen, session: str, report: InterruptReport, scope: Scope, replacement: str | None
) -> None:
    if not report.matched:
        screen.line(_nothing_to_interrupt(report))
        if report.input_id is not None:
            screen.note(f"The text was sent as an input: {report.input_id}")
        elif replacement is not None:
            screen.note(f"The text was not sent; use `understudy send {session} TEXT`.")
        return
    words = ("stopped", "already_over", "stale", "unreachable")
    counted = [
        f"{getattr(report, word)} {word.replace('_', ' ')}"
        for word in words
        if getattr(report, word)
    ]
    step = f", by {report.ladder_step}" if report.ladder_step else ""
    screen.line(f"{', '.join(counted) or 'nothing'} in {format_duration(report.seconds)}{step}")
    if report.unreachable:
        screen.note(_unreachable_note(session, scope))


def _nothing_to_interrupt(report: InterruptReport) -> str:
    if report.unknown:
        return "Nothing to interrupt: the session never had that id."
    return "Nothing to interrupt: that is over." if report.already_over else "Nothing to interrupt."


def _unreachable_note(session: str, scope: Scope) -> str:
    from supervisor.core.scopes import ToolCall  # noqa: PLC0415 - late

    if isinstance(scope, ToolCall):
        return "The agent cannot interrupt that; interrupt the turn instead."
    return (
        "The agent did not react. Its turn is closed, but its task still runs;"
        f" `understudy why {session}` shows it."
    )
