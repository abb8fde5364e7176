"""`understudy new` and `understudy spawn`: create a session, or a child of one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.options import DURATION, TEXT, json_option, require_text
from supervisor.cli.output import Screen
from supervisor.cli.result_output import show_created
from supervisor.cli.target import find_session, open_target


@click.command()
@click.argument("agent", metavar="AGENT")
@click.option("--key", metavar="KEY", help="Key of the session: agent:channel:peer[:thread].")
@click.option("--name", metavar="NAME", type=TEXT, help="Name of the session.")
@click.option("--title", metavar="TITLE", type=TEXT, help="Title of the session.")
@click.option(
    "--tag", "tags", metavar="TAG", type=TEXT, multiple=True, help="Tag; may be repeated."
)
@click.option(
    "--workspace", metavar="FOLDER", type=click.Path(), help="Working directory of the agent."
)
@json_option
def new(*, agent: str, workspace: str | None, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Create a session of an agent and print its id."""
    screen = Screen(as_json=as_json)
    # Absolute, because the daemon has another working directory.
    folder = None if workspace is None else str(Path(workspace).absolute())
    return run_async(screen, partial(_new, screen, agent, {**options, "workspace": folder}))


async def _new(screen: Screen, agent: str, options: dict[str, Any]) -> None:
    async with open_target(screen, start=True) as sup:
        made = await sup.create(agent, **options)
        show_created(screen, await made.info())


@click.command()
@click.argument("session", metavar="ID")
@click.argument("agent", metavar="AGENT")
@click.argument("text", metavar="TEXT")
@click.option("--role", default="worker", type=TEXT, show_default=True, help="Role of the child.")
@click.option("--name", metavar="NAME", type=TEXT, help="Name of the child.")
@click.option("--ttl", "ttl_seconds", metavar="TIME", type=DURATION, help="Stop after: 10m.")
@click.option("--detached", is_flag=True, help="Keep the child when its parent stops.")
@click.option("--wake", is_flag=True, help="Start a turn of the parent when the child ends.")
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
    """Create a child of a session, send it TEXT, and print its id."""
    screen = Screen(as_json=as_json)
    asked = {
        **options,
        "lifetime": "detached" if detached else "with_parent",
        "on_end": "wake" if wake else "tell",
    }
    return run_async(screen, partial(_spawn, screen, session, agent, require_text(text), asked))


async def _spawn(
    screen: Screen, session: str, agent: str, text: str, options: dict[str, Any]
) -> None:
    async with open_target(screen) as sup:
        parent = await find_session(sup, session)
        child = await parent.spawn(agent, text, **options)
        show_created(screen, await child.info())
