"""`understudy set`: change details, limits, budgets and agent options of a session."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from supervisor.cli.async_runner import run_requests
from supervisor.cli.options import LINE, NAME, TEXT, json_option
from supervisor.cli.output import Screen
from supervisor.cli.session_options import (
    agent_options,
    limit_options,
    parse_agent_options,
    parse_limits,
)
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import Cell


@click.command("set")
@click.argument("session", metavar="ID")
@click.option("--name", metavar="NAME", type=NAME, help="Name of the session.")
@click.option("--title", metavar="TITLE", type=LINE, help="Title of the session.")
@click.option(
    "--tag",
    "tags",
    metavar="TAG",
    type=LINE,
    multiple=True,
    help="Replace the tags; may be repeated.",
)
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
@click.option(
    "--custom",
    metavar="NAME=VALUE",
    type=TEXT,
    multiple=True,
    help="Replace the custom values; may be repeated.",
)
@limit_options
@agent_options
@json_option
def set_(*, session: str, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Change what is given and keep the rest; limits and budgets apply at once.

    Options of the agent apply from its next turn; NAME= leaves one to the agent again.
    """
    screen = Screen(as_json=as_json)
    changes = _changes(options)
    if not changes:
        raise click.UsageError("Give at least one option to change.")
    return run_requests(screen, partial(_set, screen, session, changes))


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Session.set`."""
    if options["tags"] and options["no_tags"]:
        raise click.UsageError("Give --tag or --no-tags, not both.")
    changes: dict[str, Any] = {"limits": parse_limits(options)}
    changes["options"] = parse_agent_options(options)
    changes |= {name: options[name] for name in ("name", "title")}
    changes["custom"] = dict(map(_split_custom, options["custom"]))
    changes = {name: value for name, value in changes.items() if value}
    if options["tags"] or options["no_tags"]:
        changes["tags"] = options["tags"]
    return changes


def _split_custom(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError(f"{text!r} is not NAME=VALUE.")
    return name, value


async def _set(screen: Screen, session: str, changes: dict[str, Any]) -> None:
    async with open_target(screen) as sup:
        found = await find_session(sup, session)
        await found.set(**changes)
        info = await found.info()
    if screen.as_json:
        screen.data(info)
    else:
        screen.line(Cell(info.id, "bold"), f"  changed: {', '.join(changes)}")
