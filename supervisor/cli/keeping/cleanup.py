"""`understudy cleanup`: delete what is over and old, too much, or too large."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.ground.failures import ERROR, OK
from supervisor.cli.ground.options import DURATION, SIZE, Count, json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import size

if TYPE_CHECKING:
    from supervisor.sessions.library.cleaning import CleanupReport


@click.command()
@click.option("--older-than", metavar="TIME", type=DURATION, help="Stopped so long ago: 30d, 12h.")
@click.option("--keep-last", metavar="COUNT", type=Count(0), help="Keep only so many.")
@click.option("--max-bytes", metavar="SIZE", type=SIZE, help="Keep only so much: 500MB, 2GiB.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@state_option
@json_option
def cleanup(
    *,
    older_than: float | None,
    keep_last: int | None,
    max_bytes: int | None,
    dry_run: bool,
    state: str | None,
    as_json: bool,
) -> int:
    """Delete trees in which all sessions are stopped, for good.

    Without a rule, only roots go in which nobody ever said anything and that are older than an
    hour; they go in any case.
    """
    screen = Screen(as_json=as_json)
    rules = {"older_than_seconds": older_than, "keep_last": keep_last, "max_bytes": max_bytes}
    return run_async(screen, partial(_cleanup, screen, state, rules, dry_run=dry_run))


async def _cleanup(
    screen: Screen, state: str | None, rules: dict[str, Any], *, dry_run: bool
) -> int:
    async with (
        open_target(screen, state=state, access="read" if dry_run else "keep") as sup,
        progress(screen, "cleaning up"),
    ):
        report = await sup.cleanup(**rules, dry_run=dry_run)
    if screen.as_json:
        screen.data(report)
    else:
        _show(screen, report)
    return ERROR if report.failed else OK


def _show(screen: Screen, report: CleanupReport) -> None:
    if report.deleted:
        screen.table(("ID", "BECAUSE"), [(one, why) for one, why in report.deleted.items()])
    count = len(report.deleted)
    went = "would go" if report.dry_run else "gone"
    screen.note(f"{count} session{'' if count == 1 else 's'} {went}, {size(report.bytes)}.")
    for one, why in report.failed.items():
        screen.warn(f"{one} is still there: {why}")
