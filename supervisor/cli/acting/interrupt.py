"""`understudy interrupt`: exactly what is named, and nothing beside it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.ground.failures import ERROR, OK
from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import duration

if TYPE_CHECKING:
    from supervisor.core.receipts import InterruptReport
    from supervisor.sessions.surface.shapes import Scope


@click.command()
@click.argument("session", metavar="ID")
@click.option("--call", metavar="CALL", help="Only this tool call; `understudy log` has its id.")
@click.option("--turn", metavar="TURN", help="Only this turn; without, the one that runs.")
@click.option("--session", "whole", is_flag=True, help="The turn, and all that its agent runs.")
@click.option("--tree", is_flag=True, help="This session and all below it.")
@click.option("--reason", metavar="TEXT", help="Why, for the record.")
@click.option("--replace-with", metavar="TEXT", help="What is to run instead.")
@click.option("--cancel-queued", is_flag=True, help="Cancel what waits, too.")
@json_option
def interrupt(*, session: str, cancel_queued: bool, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Interrupt the turn that runs, or exactly what you name; no session is stopped by it.

    Exits with 1 if it cannot be reached.
    """
    screen = Screen(as_json=as_json)
    named = [name for name in ("call", "turn", "whole", "tree") if options[name]]
    if len(named) > 1:
        raise click.UsageError("Name one thing: --call, --turn, --session or --tree.")
    asked = {
        "reason": options["reason"],
        "replace_with": options["replace_with"],
        "queued": "cancel" if cancel_queued else "keep",
    }
    return run_async(screen, partial(_interrupt, screen, session, _scope(options), asked))


def _scope(options: dict[str, Any]) -> Scope:
    from supervisor.sessions.surface.shapes import ToolCall, TurnScope  # noqa: PLC0415 - late

    if options["call"]:
        return ToolCall(options["call"])
    if options["turn"]:
        return TurnScope(options["turn"])
    if options["tree"]:
        return "tree"
    return "session" if options["whole"] else "turn"


async def _interrupt(screen: Screen, session: str, scope: Scope, asked: dict[str, Any]) -> int:
    async with open_target(screen) as sup, progress(screen, "interrupting"):
        report = await (await find_session(sup, session)).interrupt(scope, **asked)
    if screen.as_json:
        screen.data(report)
    else:
        _show(screen, report)
    return ERROR if report.unreachable else OK


def _show(screen: Screen, report: InterruptReport) -> None:
    if not report.matched:
        screen.line("There was nothing to interrupt.")
        return
    words = ("stopped", "already_over", "stale", "unreachable")
    counted = [
        f"{getattr(report, word)} {word.replace('_', ' ')}"
        for word in words
        if getattr(report, word)
    ]
    step = f", by {report.ladder_step}" if report.ladder_step else ""
    screen.line(f"{', '.join(counted) or 'nothing'} in {duration(report.seconds)}{step}")
    if report.unreachable:
        screen.note("Its agent offers no handle on that; interrupt the turn instead.")
