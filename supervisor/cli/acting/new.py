"""`understudy new` and `understudy spawn`: a session, and a child of one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import DURATION, json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.screen import Screen

from .answers import show_made


@click.command()
@click.argument("agent", metavar="AGENT")
@click.option("--key", metavar="KEY", help="agent:channel:peer[:thread], by which it is found.")
@click.option("--name", metavar="NAME", help="A name for it.")
@click.option("--title", metavar="TITLE", help="What it is about.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; again for more.")
@click.option("--workspace", metavar="FOLDER", type=click.Path(), help="Where its agent works.")
@json_option
def new(*, agent: str, workspace: str | None, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Make a session of an agent, and print its id."""
    screen = Screen(as_json=as_json)
    # Whole, for the daemon stands in another folder.
    folder = None if workspace is None else str(Path(workspace).absolute())
    return run_async(screen, partial(_new, screen, agent, {**options, "workspace": folder}))


async def _new(screen: Screen, agent: str, options: dict[str, Any]) -> None:
    async with open_target(screen) as sup:
        made = await sup.create(agent, **options)
        show_made(screen, await made.info())


@click.command()
@click.argument("session", metavar="ID")
@click.argument("agent", metavar="AGENT")
@click.argument("text", metavar="TEXT")
@click.option("--role", default="worker", show_default=True, help="What it is to its parent.")
@click.option("--name", metavar="NAME", help="A name for it.")
@click.option("--ttl", "ttl_seconds", metavar="TIME", type=DURATION, help="Stopped after: 10m.")
@click.option("--detached", is_flag=True, help="It outlives its parent.")
@click.option("--wake", is_flag=True, help="Its end begins a turn of its parent.")
@json_option
def spawn(
    *,
    session: str,
    agent: str,
    text: str,
    detached: bool,
    wake: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click's options
) -> int:
    """Make a child of a session, at work on TEXT, and print its id."""
    screen = Screen(as_json=as_json)
    asked = {
        **options,
        "lifetime": "detached" if detached else "with_parent",
        "on_end": "wake" if wake else "tell",
    }
    return run_async(screen, partial(_spawn, screen, session, agent, text, asked))


async def _spawn(
    screen: Screen, session: str, agent: str, text: str, options: dict[str, Any]
) -> None:
    async with open_target(screen) as sup:
        parent = await find_session(sup, session)
        child = await parent.spawn(agent, text, **options)
        show_made(screen, await child.info())
