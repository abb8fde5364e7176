"""`understudy mcp`: the tools of the daemon for the assistant of a person, over stdio.

Rule 1: nothing but the protocol goes to standard output.
Rule 2: the end of the daemon does not end the command. The call that it interrupts gets an error,
        and the next call connects again, and starts the daemon if it is not running.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from supervisor.cli.async_runner import run_blocking
from supervisor.cli.daemon_start import reach_daemon, start_if_allowed
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.core.errors import SupervisorError

if TYPE_CHECKING:
    from supervisor.cli.daemon_place import DaemonPlace
    from supervisor.mcp_server.bridge import ToolsAddress


@click.command()
@click.option(
    "--scope",
    type=click.Choice(["all"]),
    default="all",
    show_default=True,
    help="Which sessions the tools reach.",
)
@json_option
def mcp(*, scope: str, as_json: bool) -> int:  # noqa: ARG001 - one scope so far
    """Serve the tools of the daemon to an assistant, as an MCP server over stdio.

    Add it to an assistant that you use, such as an editor. It is not for agents that Understudy
    runs: those get the tools of their session by themselves.
    """
    screen = Screen(as_json=as_json)
    return run_blocking(screen, partial(_serve, screen))


async def _serve(screen: Screen) -> None:
    from supervisor.mcp_server.bridge import Bridge  # noqa: PLC0415 - slow to import

    with ExitStack() as held:
        place = held.enter_context(reach_daemon(screen, start=True))
        Bridge(_address(place), start=partial(_start, screen)).run()


def _address(place: DaemonPlace) -> ToolsAddress:
    from supervisor.client.address import find_address  # noqa: PLC0415 - slow to import
    from supervisor.mcp_server.bridge import ToolsAddress  # noqa: PLC0415 - as above

    found = find_address(place.address, place.token_file, os.environ)
    if found.socket is not None:
        return ToolsAddress(found.socket)
    assert found.port is not None
    return ToolsAddress(found.port, found.token)


def _start(screen: Screen) -> None:
    try:
        start_if_allowed(screen)
    except SupervisorError as error:
        raise OSError(str(error)) from error
