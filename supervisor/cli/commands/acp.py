"""`understudy acp`: serve an editor that speaks the Agent Client Protocol."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.common_options import refuse_typed_host
from supervisor.cli.failures import OK
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.target import load_configuration

if TYPE_CHECKING:
    from supervisor.acp_agent.acp_options import AcpOptions
    from supervisor.acp_agent.standard_streams import StandardStreams
    from supervisor.cli.daemon_place import DaemonPlace
    from supervisor.client import RemoteSupervisor


@click.command()
@click.option("--agent", metavar="NAME", help="Agent of new sessions (default: the first one).")
@click.option("--tag", metavar="T", help="Tag new sessions, and list only those with this tag.")
@click.option(
    "--on-close",
    type=click.Choice(["stop", "detach"]),
    default="stop",
    help="What happens to a session that the editor closes.",
)
@click.option("--only-own-turns", is_flag=True, help="Show only turns that this editor has begun.")
@click.option("--unstable", is_flag=True, help="Offer methods that are not stable yet.")
@click.option("--embedded", is_flag=True, help="Run the sessions in this process; no daemon.")
@json_option
def acp(
    *,
    as_json: bool,
    agent: str | None,
    tag: str | None,
    on_close: Literal["stop", "detach"],
    only_own_turns: bool,
    unstable: bool,
    embedded: bool,
) -> int:
    """Serve an editor over standard input and output (Agent Client Protocol).

    The editor starts this command as its agent; it is of no use in a terminal. The sessions run in
    the daemon, which is started if none listens, and outlive the editor: when its input ends, this
    process ends, and turns go on. Notes and errors go to standard error, with --json as JSON.
    """
    from supervisor.acp_agent.acp_options import AcpOptions  # noqa: PLC0415 - late
    from supervisor.acp_agent.standard_streams import take_standard_streams  # noqa: PLC0415 - late

    options = AcpOptions(
        agent=agent,
        tag=tag,
        stop_on_close=on_close == "stop",
        only_own_turns=only_own_turns,
        unstable=unstable,
    )
    screen = Screen(as_json=as_json)  # its notes and errors go to standard error
    with take_standard_streams() as streams:
        if embedded:
            refuse_typed_host("--embedded runs the sessions here")
            return run_async(screen, partial(_serve_embedded, streams, options))
        from supervisor.cli.daemon_start import reach_daemon  # noqa: PLC0415 - late

        with reach_daemon(screen, start=True) as place:
            return run_async(screen, partial(_serve_daemon, place, streams, options))


async def _serve_daemon(place: DaemonPlace, streams: StandardStreams, options: AcpOptions) -> int:
    from supervisor.acp_agent.serve_client import serve_client  # noqa: PLC0415 - late
    from supervisor.client import connect_once  # noqa: PLC0415 - late

    # Not `connect`: importing httpx takes half of the time in which this command starts.
    async with connect_once(place.address, token_file=place.token_file) as sup:
        await serve_client(sup, streams, options)
    return OK


async def _serve_embedded(streams: StandardStreams, options: AcpOptions) -> int:
    from supervisor.acp_agent.serve_client import serve_client  # noqa: PLC0415 - late

    async with _embedded_supervisor() as sup:
        await serve_client(sup, streams, options)
    return OK


@asynccontextmanager
async def _embedded_supervisor() -> AsyncIterator[RemoteSupervisor]:
    """Open a supervisor in memory, with the agents of the configuration."""
    from supervisor.configuration import make_agents  # noqa: PLC0415 - late
    from supervisor.runtime import open as open_supervisor  # noqa: PLC0415 - slow to import

    configuration = load_configuration(None)
    agents = make_agents(configuration, environ=os.environ)
    async with open_supervisor(":memory:", agents=agents, settings=configuration.settings) as sup:
        # It has the methods of a remote one.
        yield cast("RemoteSupervisor", sup)
