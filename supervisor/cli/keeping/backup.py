"""`understudy backup` and `understudy restore`: the whole store, there and back."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from supervisor.cli.ground.failures import refuse_unless_file
from supervisor.cli.ground.options import config_option, json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.settings import load_configuration
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import size


@click.command()
@click.argument("path", metavar="PATH", type=click.Path())
@state_option
@json_option
def backup(*, path: str, state: str | None, as_json: bool) -> int:
    """Copy the whole store into a new file, also while it is in use."""
    screen = Screen(as_json=as_json)
    # Whole, for the daemon stands in another folder.
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
        screen.line(f"{target}: {size(written)}")


@click.command()
@click.argument("path", metavar="BACKUP", type=click.Path())
@state_option
@config_option
@json_option
def restore(*, path: str, state: str | None, config_path: str | None, as_json: bool) -> int:
    """Put a backup in the place of the store, while no daemon runs.

    The store that was there is kept beside it, under another name. Without --state it is that of
    the daemon.
    """
    screen = Screen(as_json=as_json)
    target = state or load_configuration(config_path).daemon.database
    return run_async(screen, partial(_restore, screen, path, target))


async def _restore(screen: Screen, path: str, target: str) -> None:
    from supervisor.runtime import restore as restore_store  # noqa: PLC0415 - late

    refuse_unless_file(path)
    async with progress(screen, "restoring"):
        old = await restore_store(path, target)
    if screen.as_json:
        screen.data({"path": target, "before": None if old is None else str(old)})
        return
    screen.line(f"{target} is what {path} was.")
    if old is not None:
        screen.line(f"What was there is now {old}.")
