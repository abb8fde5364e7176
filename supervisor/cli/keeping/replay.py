"""`understudy replay`: a session as it was."""

from __future__ import annotations

from functools import partial

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import Count, json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.looking.show import show_info
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.screen import Screen


@click.command()
@click.argument("session", metavar="ID")
@click.option("--at", required=True, metavar="N", type=Count(1), help="Record N.")
@state_option
@json_option
def replay(*, session: str, at: int, state: str | None, as_json: bool) -> int:
    """Show a session as it was when its record N had been written."""
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
