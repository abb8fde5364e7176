"""`understudy repair`: whether a session's records are whole, and closing what was left open."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from supervisor.cli.ground.failures import ERROR, OK
from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.screen import Screen

if TYPE_CHECKING:
    from supervisor.store.repair import RepairReport


@click.command()
@click.argument("session", metavar="ID")
@click.option(
    "--write/--dry-run",
    default=False,
    help="Mend it, or only look.",
    show_default=True,
)
@click.option("--force", is_flag=True, help="Also if there are errors that cannot be mended.")
@state_option
@json_option
def repair(*, session: str, write: bool, force: bool, state: str | None, as_json: bool) -> int:
    """See whether a session's records are whole; none of them is ever rewritten.

    With --write what was left open is closed, and a row that cannot be read is made anew from the
    records. Exits with 1 if there are errors.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_repair, screen, state, session, write=write, force=force))


async def _repair(
    screen: Screen, state: str | None, session: str, *, write: bool, force: bool
) -> int:
    async with (
        open_target(screen, state=state, access="keep" if write else "read") as sup,
        progress(screen, "looking"),
    ):
        found = await find_session(sup, session)
        report = await found.repair(dry_run=not write, force=force)
    if screen.as_json:
        screen.data(report)
    else:
        _show(screen, report)
    return ERROR if any(one.severity == "error" for one in report.problems) else OK


def _show(screen: Screen, report: RepairReport) -> None:
    if not report.problems:
        screen.line(f"The records of {report.session_id} are whole.")
        return
    rows = [
        (
            Cell(one.severity, "red" if one.severity == "error" else "yellow"),
            one.code,
            "" if one.seq is None else str(one.seq),
            one.detail,
        )
        for one in report.problems
    ]
    screen.table(("SEVERITY", "PROBLEM", "RECORD", "DETAIL"), rows)
    for said in _mended(report):
        screen.note(said)


def _mended(report: RepairReport) -> Iterator[str]:
    """What was done, or what --write would do."""
    count = len(report.appended)
    if report.dry_run:
        if report.row_made:
            yield "--write makes its row anew."
        if count:
            yield f"{count} records would close it; --write appends them."
        return
    if report.row_made:
        yield "Its row was made anew."
    yield f"{count} records were appended."
