"""`understudy top`: all sessions, live."""

from __future__ import annotations

from functools import partial

import click

from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.screen import Screen


@click.command()
@json_option
def top(*, as_json: bool) -> int:
    """Watch all sessions, live, and steer or interrupt them with a key."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_top, screen))


async def _top(screen: Screen) -> None:
    async with open_target(screen):
        pass
