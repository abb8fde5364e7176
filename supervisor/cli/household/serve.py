"""`understudy serve` and `understudy reload`: the daemon."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import click

from supervisor.cli.ground.options import config_option, json_option
from supervisor.cli.ground.settings import load_configuration
from supervisor.cli.terminal.screen import Screen


@click.command()
@click.option("--tcp", metavar="PORT", help="Listen on 127.0.0.1 too, with a token.")
@click.option("--socket", metavar="PATH", type=click.Path(), help="Where to listen.")
@click.option("--state-folder", metavar="FOLDER", type=click.Path(), help="Where to keep all.")
@config_option
@json_option
def serve(*, config_path: str | None, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Run the daemon, which holds sessions and serves them to everybody else.

    The first TERM or Ctrl-C lets turns end, the second does not wait; HUP reads the configuration
    again. Exits with 0 if every turn ended by itself, with 6 if some were interrupted, with 7 if
    something would not end. With --json the log is JSON.
    """
    from supervisor.daemon import run  # noqa: PLC0415 - late

    flags = {
        "daemon.tcp_port": options["tcp"],
        "daemon.socket": options["socket"],
        "daemon.state_folder": options["state_folder"],
        "daemon.log_format": "json" if as_json else None,
    }
    load = partial(load_configuration, config_path, flags=flags)
    return run(load(), load=load)


@click.command()
@config_option
@json_option
def reload(*, config_path: str | None, as_json: bool) -> None:
    """Have the daemon read its configuration again; live sessions are not touched."""
    from supervisor.client import NoDaemon  # noqa: PLC0415 - late
    from supervisor.daemon import find_daemon  # noqa: PLC0415 - late

    screen = Screen(as_json=as_json)
    socket = load_configuration(config_path).daemon.socket
    found = find_daemon(socket)
    if found is None:
        raise NoDaemon(f"no daemon holds {socket}", hint="start one with `understudy serve`")
    os.kill(found.pid, signal.SIGHUP)
    if as_json:
        screen.data({"pid": found.pid})
    else:
        screen.line(f"Process {found.pid} was told; its log says what came of it.")
