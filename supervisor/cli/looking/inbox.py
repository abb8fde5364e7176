"""`understudy inbox`: what agents ask, over all sessions."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen, json_text
from supervisor.cli.terminal.times import ago
from supervisor.core.printable import one_line

if TYPE_CHECKING:
    from supervisor.sessions.inbox import PermissionRequest

_MOST_LETTERS: Final = 4_000


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
    for one in requests:
        about = f"  {one.session_id}  {one_line(one.tool)}  {ago(now - one.asked_at)}"
        screen.line(Cell(one.id, "bold"), Cell(about, "dim"))
        screen.line("    ", one_line(one.question))
        if one.input:
            screen.line("    ", input_of(one))
        screen.line("    ", Cell(", ".join(one.options), "dim"))
    screen.note("`understudy answer REQUEST DECISION` decides.")


def input_of(request: PermissionRequest) -> str:
    """What the tool is to be used on, for nobody should decide on less; at most so much of it."""
    text = json_text(request.input)
    more = len(text) - _MOST_LETTERS
    return text if more <= 0 else f"{text[:_MOST_LETTERS]}… and {more} more characters"
