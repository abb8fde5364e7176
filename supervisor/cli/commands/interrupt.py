"""`understudy interrupt`: interrupt exactly the named scope."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.async_runner import run_requests
from supervisor.cli.bulk import Bulk, read_sessions, sessions_argument
from supervisor.cli.failures import ERROR, NOT_FOUND, OK
from supervisor.cli.options import TEXT, json_option
from supervisor.cli.output import Screen
from supervisor.cli.progress_bar import progress
from supervisor.cli.safe import safe
from supervisor.cli.target import find_id, open_target
from supervisor.cli.text_format import format_duration
from supervisor.cli.wait_words import LADDER_WORDS, zombie_hint
from supervisor.core.scopes import Scope, ToolCall, TurnScope

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.info import Info
    from supervisor.core.receipts import InterruptReport
    from supervisor.handles.session import Session


@click.command()
@sessions_argument
@click.option(
    "--call", metavar="CALL", type=TEXT, help="Only this tool call (ids: `understudy log`)."
)
@click.option(
    "--turn", metavar="TURN", type=TEXT, help="Only this turn (default: the running one)."
)
@click.option("--session", "whole", is_flag=True, help="The turn and all work of its agent.")
@click.option("--tree", is_flag=True, help="This session and all its descendants.")
@click.option("--reason", metavar="TEXT", type=TEXT, help="The reason, for the record.")
@click.option("--replace-with", metavar="TEXT", type=TEXT, help="An input to run instead.")
@click.option("--cancel-queued", is_flag=True, help="Also cancel the queued inputs.")
@json_option
def interrupt(
    *,
    sessions: tuple[str, ...],
    tag: str | None,
    cancel_queued: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click's options
) -> int:
    """Interrupt the running turn, or exactly the scope you name; no session is stopped.

    With several sessions, one line is printed for each. Exits with 1 if the agent cannot interrupt
    that scope, and with 3 if the session never had the named turn or tool call.
    """
    screen = Screen(as_json=as_json)
    named = [name for name in ("call", "turn", "whole", "tree") if options[name]]
    if len(named) > 1:
        raise click.UsageError("Give one of --call, --turn, --session and --tree.")
    bulk = Bulk(screen, read_sessions(sessions, tag), tag, _has_turn)
    if not bulk.is_single and (options["call"] or options["turn"]):
        raise click.UsageError("--call and --turn name the work of one session.")
    asked = {
        "reason": options["reason"],
        "replace_with": options["replace_with"],
        "queued": "cancel" if cancel_queued else "keep",
    }
    return run_requests(screen, partial(_interrupt, bulk, _scope(options), asked))


def _has_turn(info: Info) -> bool:
    return info.turn_id is not None


def _scope(options: dict[str, Any]) -> Scope:
    if options["call"]:
        return ToolCall(options["call"])
    if options["turn"]:
        return TurnScope(options["turn"])
    if options["tree"]:
        return "tree"
    return "session" if options["whole"] else "turn"


async def _interrupt(bulk: Bulk, scope: Scope, asked: dict[str, Any]) -> int:
    async with open_target(bulk.screen) as sup:

        async def interrupt_one(found: Session, session: str) -> int:
            async with progress(bulk.screen, "interrupting"):
                report = await found.interrupt(await _whole(sup, found, scope), **asked)
            return _report(bulk, session, report, scope, asked)

        return await bulk.run(sup, interrupt_one)


def _report(
    bulk: Bulk, session: str, report: InterruptReport, scope: Scope, asked: dict[str, Any]
) -> int:
    screen = bulk.screen
    if screen.as_json:
        screen.data(report if bulk.is_single else {"session": session, "report": report})
    else:
        if not bulk.is_single:
            screen.write(f"{safe(session)}  ")
        _show(screen, session, report, scope, asked["replace_with"])
    if report.unknown:
        return NOT_FOUND
    return ERROR if report.unreachable else OK


async def _whole(sup: Target, session: Session, scope: Scope) -> Scope:
    """Return the scope with the whole id of its turn or call."""
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
    took = f"{'in' if report.stopped else 'after'} {format_duration(report.seconds)}"
    screen.line(f"{_outcome_words(report)} {took}{_step_words(report)}")
    if report.unreachable:
        screen.note(_unreachable_note(session, scope))


def _outcome_words(report: InterruptReport) -> str:
    """Return what became of the targets: without a number if there is one."""
    counts = {
        "interrupted": report.stopped,
        "already over": report.already_over,
        "replaced by another turn": report.stale,
        "still running": report.unreachable,
    }
    found = {word: count for word, count in counts.items() if count}
    if sum(found.values()) == 1:
        return next(iter(found))
    return ", ".join(f"{count} {word}" for word, count in found.items()) or "nothing changed"


def _step_words(report: InterruptReport) -> str:
    if report.ladder_step is None or not report.stopped:
        return ""
    return f", {LADDER_WORDS[report.ladder_step]}"


def _nothing_to_interrupt(report: InterruptReport) -> str:
    if report.unknown:
        return "Nothing to interrupt: the session never had that id."
    return "Nothing to interrupt: that is over." if report.already_over else "Nothing to interrupt."


def _unreachable_note(session: str, scope: Scope) -> str:
    if isinstance(scope, ToolCall):
        return (
            "The agent cannot interrupt a single tool call;"
            f" `understudy interrupt {session}` interrupts the whole turn."
        )
    if scope == "tree":
        return (
            "Some agents did not react. Their turns are closed, but tasks still run (zombies), and"
            " their sessions start no other turn until these end;"
            f" `understudy tree {session}` shows them as unhealthy."
        )
    return f"The agent did not react. {zombie_hint(session)} `understudy why {session}` shows it."
