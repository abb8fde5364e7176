"""`understudy inputs`: what waits in a session, and changing it."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import ago

if TYPE_CHECKING:
    from supervisor.sessions.surface.handle import Session
    from supervisor.sessions.surface.shapes import Input


@click.command()
@click.argument("session", metavar="ID")
@click.option("--edit", nargs=2, metavar="INPUT TEXT", help="Another text for it.")
@click.option("--move", nargs=2, metavar="INPUT PLACE", type=(str, int), help="To that place.")
@click.option("--promote", metavar="INPUT", help="Steer the turn that runs with it.")
@click.option("--cancel", metavar="INPUT", help="Never run it.")
@json_option
def inputs(*, session: str, as_json: bool, **changes: Any) -> int:  # noqa: ANN401 - click's options
    """List what was accepted and has not run yet, in its order, after what you change."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_inputs, screen, session, changes))


async def _inputs(screen: Screen, session: str, changes: dict[str, Any]) -> None:
    async with open_target(screen) as sup:
        found = await find_session(sup, session)
        await _change(found, changes)
        show_inputs(screen, await found.inputs())


async def _change(session: Session, changes: dict[str, Any]) -> None:
    if changes["edit"]:
        await session.edit_input(*changes["edit"])
    if changes["move"]:
        await session.move_input(*changes["move"])
    if changes["promote"]:
        await session.promote_input(changes["promote"])
    if changes["cancel"]:
        await session.cancel_input(changes["cancel"])


def show_inputs(screen: Screen, waiting: list[Input]) -> None:
    """What waits, in its order."""
    if screen.as_json:
        screen.data(waiting)
        return
    if not waiting:
        screen.note("Nothing waits.")
        return
    now = time.time()
    rows = [
        (str(one.position), Cell(one.id, "bold"), one.status, ago(now - one.accepted_at), one.text)
        for one in waiting
    ]
    screen.table(("PLACE", "INPUT", "STATUS", "SINCE", "TEXT"), rows, stretch=[4])
