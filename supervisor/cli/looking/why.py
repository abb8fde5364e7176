"""`understudy why`: what a session waits for, and whom that one waits for."""

from __future__ import annotations

from functools import partial

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import duration


@click.command()
@click.argument("session", metavar="ID")
@json_option
def why(*, session: str, as_json: bool) -> int:
    """Say why nothing happens in a session: what it waits for, and so on to the end."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_why, screen, session))


async def _why(screen: Screen, session: str) -> None:
    async with open_target(screen) as sup:
        answer = await (await find_session(sup, session)).why()
    if screen.as_json:
        screen.data(answer)
        return
    for waits in answer.chain:
        screen.line(str(waits), Cell(f", for {duration(waits.seconds)}", "dim"))
    if answer.cycle:
        circle = " -> ".join((*answer.cycle, answer.cycle[0]))
        screen.line(Cell(f"They wait for each other: {circle}", "red"))
