"""`understudy hosts`: the hosts whose daemons can be used with `--host`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from supervisor.cli.failures import WrongUsage
from supervisor.cli.host_file import Host, find_host, read_hosts, write_hosts
from supervisor.cli.options import Count, json_option
from supervisor.cli.output import Screen
from supervisor.cli.text_format import Cell
from supervisor.core.errors import ConfigError


@click.group(invoke_without_command=True, subcommand_metavar="[add|rm|ls]")
@json_option
@click.pass_context
def hosts(ctx: click.Context, *, as_json: bool) -> None:
    """List the hosts whose daemons can be used with --host NAME or UNDERSTUDY_HOST.

    They are in hosts.toml in the configuration folder. A host is reached with ssh, which must work
    without a password, or over a port of a tunnel.
    """
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"Write options after {ctx.invoked_subcommand}.")
        return
    _show_hosts(Screen(as_json=as_json))


def _show_hosts(screen: Screen) -> None:
    known = read_hosts(os.environ)
    if screen.as_json:
        screen.data({"items": list(known.values()), "next": None})
        return
    if not known:
        screen.note("No hosts. `understudy hosts add NAME DESTINATION` adds one.")
        return
    rows = [
        (Cell(host.name, "bold"), host.way, host.socket or host.token_file or "")
        for host in known.values()
    ]
    screen.table(("HOST", "REACHED BY", "SOCKET OR TOKEN"), rows, shrinkable=[1, 2])


@hosts.command("ls", short_help="List the hosts.")
@json_option
def list_hosts(*, as_json: bool) -> None:
    """List the hosts, as `understudy hosts` does."""
    _show_hosts(Screen(as_json=as_json))


@hosts.command("add", short_help="Add or replace a host.")
@click.argument("name", metavar="NAME")
@click.argument("destination", metavar="[DESTINATION]", required=False)
@click.option("--socket", metavar="PATH", help="Path of the daemon's socket there.")
@click.option("--tcp", metavar="PORT", type=Count(1), help="Port of a tunnel on 127.0.0.1.")
@click.option(
    "--token-file", metavar="PATH", type=click.Path(), help="File with the daemon's token."
)
@json_option
def add(*, name: str, destination: str | None, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - click's options
    """Add a host, or replace the one of that name.

    DESTINATION is one for ssh: a name of your ssh configuration, or user@machine. Without --socket,
    each command first runs `understudy config get daemon.socket` there. For --tcp, the port must be
    the same on both sides of the tunnel, and the token file a copy of the daemon's.
    """
    screen = Screen(as_json=as_json)
    if options["tcp"] is not None and options["socket"] is not None:
        raise click.UsageError("--socket is for ssh; give only one of --socket and --tcp.")
    token = options["token_file"]
    try:
        host = Host(
            name,
            ssh=destination,
            socket=options["socket"],
            port=options["tcp"],
            token_file=None if token is None else str(Path(token).expanduser().absolute()),
        )
    except ConfigError as error:  # the arguments are wrong, not the file
        raise WrongUsage(str(error.args[0]), hint=error.hint) from None
    path = write_hosts({**read_hosts(os.environ), name: host}, os.environ)
    if screen.as_json:
        screen.data(host)
    else:
        screen.line(Cell(host.name, "bold"), f"  {host.way}")
        screen.note(f"Written to {path}. Try `understudy status --host {name}`.")


@hosts.command("rm", short_help="Remove a host.")
@click.argument("name", metavar="NAME")
@json_option
def rm(*, name: str, as_json: bool) -> None:
    """Remove a host from the list; nothing changes on the host."""
    screen = Screen(as_json=as_json)
    host = find_host(name, os.environ)
    known = read_hosts(os.environ)
    del known[name]
    write_hosts(known, os.environ)
    if screen.as_json:
        screen.data({"host": host, "removed": True})
    else:
        screen.line(f"{name}: removed")
