"""`understudy import`: a session from a file."""

from __future__ import annotations

from functools import partial

import click

from supervisor.cli.ground.failures import refuse_unless_file
from supervisor.cli.ground.options import json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.screen import Screen


@click.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--format",
    "form",
    default="jsonl",
    show_default=True,
    type=click.Choice(["jsonl", "picoclaw", "ggcode"]),
    help="Our own lines, or another program's sessions.",
)
@click.option("--agent", metavar="NAME", help="Whose session it is from now on.")
@state_option
@json_option
def import_(
    *, paths: tuple[str, ...], form: str, agent: str | None, state: str | None, as_json: bool
) -> int:
    """Make a session of each file. It is stopped, and may do what any new session may."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_import, screen, state, paths, form, agent))


async def _import(
    screen: Screen, state: str | None, paths: tuple[str, ...], form: str, agent: str | None
) -> None:
    async with open_target(screen, state=state, access="keep") as sup:
        for path in paths:
            refuse_unless_file(path)
            async with progress(screen, f"importing {path}"):
                made = await sup.import_(path, form, agent=agent)  # type: ignore[arg-type]  # click has looked
                info = await made.info()
            if screen.as_json:
                screen.data(info)
            else:
                told = f"  {info.title}" if info.title else ""
                screen.line(Cell(info.id, "bold"), Cell(f"  {info.last_seq} records{told}"))
