"""`understudy repair`, `replay`, `backup`, `restore` and `cleanup`: maintain the store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.daemon_store import find_daemon_store
from supervisor.cli.failures import ERROR, OK, require_file
from supervisor.cli.options import DURATION, SIZE, Count, config_option, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.progress_bar import progress
from supervisor.cli.target import find_session, load_configuration, open_target
from supervisor.cli.text_format import Cell, counted, format_size

from .show import show_info

if TYPE_CHECKING:
    from supervisor.sessions.maintenance_reports import CleanupReport
    from supervisor.store.repair import RepairReport


@click.command()
@click.argument("session", metavar="ID")
@click.option(
    "--write/--dry-run",
    default=False,
    help="Repair, or only check.",
    show_default=True,
)
@click.option("--force", is_flag=True, help="Also if some errors cannot be repaired.")
@state_option
@json_option
def repair(*, session: str, write: bool, force: bool, state: str | None, as_json: bool) -> int:
    """Check a session's records; records are never rewritten.

    With --write, what was left open is closed, and an unreadable row is rebuilt from the records.
    Exits with 1 if there are errors.
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
        _show_repair(screen, report)
    return ERROR if any(one.severity == "error" for one in report.problems) else OK


def _show_repair(screen: Screen, report: RepairReport) -> None:
    if not report.problems:
        screen.line(f"No problems in the records of {report.session_id}.")
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
    for said in _repair_notes(report):
        screen.note(said)


def _repair_notes(report: RepairReport) -> Iterator[str]:
    """Yield a line for each repair that was made, or that --write would make."""
    count = len(report.appended)
    if report.dry_run:
        if report.row_made:
            yield "--write rebuilds its row."
        if count:
            yield f"--write appends {counted(count, 'record')} to close open turns and calls."
        return
    if report.row_made:
        yield "The row was rebuilt."
    yield f"{counted(count, 'record')} appended."


@click.command()
@click.argument("session", metavar="ID")
@click.option("--at", required=True, metavar="N", type=Count(1), help="The record number.")
@state_option
@json_option
def replay(*, session: str, at: int, state: str | None, as_json: bool) -> int:
    """Show a session as it was after record N."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_replay, screen, state, session, at))


async def _replay(screen: Screen, state: str | None, session: str, at: int) -> None:
    async with (
        open_target(screen, state=state, access="read") as sup,
        progress(screen, "replaying"),
    ):
        info = await (await find_session(sup, session)).replay(at)
    if screen.as_json:
        screen.data(info)
    else:
        show_info(screen, info)


@click.command()
@click.argument("path", metavar="PATH", type=click.Path())
@state_option
@json_option
def backup(*, path: str, state: str | None, as_json: bool) -> int:
    """Copy the store to a new file, also while it is in use."""
    screen = Screen(as_json=as_json)
    # Absolute, because the daemon has another working directory.
    return run_async(screen, partial(_backup, screen, state, str(Path(path).absolute())))


async def _backup(screen: Screen, state: str | None, target: str) -> None:
    async with (
        open_target(screen, state=state, access="read") as sup,
        progress(screen, "copying"),
    ):
        written = await sup.backup(target)
    if screen.as_json:
        screen.data({"path": target, "bytes": written})
    else:
        screen.line(f"{target}: {format_size(written)}")


@click.command()
@click.argument("path", metavar="BACKUP", type=click.Path())
@state_option
@config_option
@json_option
def restore(*, path: str, state: str | None, config_path: str | None, as_json: bool) -> int:
    """Replace the store with a backup, while no daemon runs.

    The old store is kept beside it under another name. Without --state, the daemon's store is
    replaced.
    """
    screen = Screen(as_json=as_json)
    target = state or find_daemon_store(load_configuration(config_path).daemon)
    return run_async(screen, partial(_restore, screen, path, target))


async def _restore(screen: Screen, path: str, target: str) -> None:
    from supervisor.runtime import restore as restore_store  # noqa: PLC0415 - late

    require_file(path)
    async with progress(screen, "restoring"):
        old = await restore_store(path, target)
    if screen.as_json:
        screen.data({"path": target, "before": None if old is None else str(old)})
        return
    screen.line(f"Restored {target} from {path}.")
    if old is not None:
        screen.line(f"The old store is now {old}.")


@click.command()
@click.option("--older-than", metavar="TIME", type=DURATION, help="Minimum age: 30d, 12h.")
@click.option("--keep-last", metavar="COUNT", type=Count(0), help="Number of trees to keep.")
@click.option("--max-bytes", metavar="SIZE", type=SIZE, help="Total size to keep: 500MB, 2GiB.")
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted.")
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
    """Delete trees in which all sessions are stopped, permanently.

    Root sessions without a message that are older than an hour are always deleted; without options,
    only those.
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
        _show_cleanup(screen, report)
    return ERROR if report.failed else OK


def _show_cleanup(screen: Screen, report: CleanupReport) -> None:
    if report.deleted:
        screen.table(("ID", "BECAUSE"), [(one, why) for one, why in report.deleted.items()])
    count = len(report.deleted)
    verb = "would be deleted" if report.dry_run else "deleted"
    screen.note(f"{counted(count, 'session')} {verb}, {format_size(report.bytes)}.")
    for one, why in report.failed.items():
        screen.warn(f"{one} was not deleted: {why}")
