"""`understudy inbox`: what agents ask, over all sessions."""

from __future__ import annotations

import time
from functools import partial

import click

from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import ago


@click.command()
@json_option
def inbox(*, as_json: bool) -> int:
    """List what waits for your decision, the oldest first; `understudy answer` decides."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_inbox, screen))


async def _inbox(screen: Screen) -> None:
    async with open_target(screen) as sup:
        requests = await sup.permissions()
    if screen.as_json:
        screen.data(requests)
        return
    if not requests:
        screen.note("Nobody asks anything.")
        return
    now = time.time()
    rows = [
        (Cell(one.id, "bold"), one.session_id, one.tool, ago(now - one.asked_at), one.question)
        for one in requests
    ]
    screen.table(("REQUEST", "SESSION", "TOOL", "SINCE", "QUESTION"), rows, stretch=4)
    screen.note("`understudy answer REQUEST allow_once` decides.")
