"""`understudy serve` and `understudy reload`: the daemon."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import click

from supervisor.cli.ground.options import config_option, json_option
from supervisor.cli.ground.running import run_async
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
def reload(*, config_path: str | None, as_json: bool) -> int:
    """Have the daemon read its configuration again; live sessions are not touched.

    Says what has changed. A configuration that is wrong changes nothing, and is an error.
    """
    screen = Screen(as_json=as_json)
    socket = load_configuration(config_path).daemon.socket
    return run_async(screen, partial(_reload, screen, socket))


async def _reload(screen: Screen, socket: str) -> None:
    import attrs  # noqa: PLC0415 - late

    from supervisor.client import connect  # noqa: PLC0415 - late

    async with connect(socket) as sup:
        said = attrs.asdict(await sup.reload())
    if screen.as_json:
        screen.data(said)
        return
    for what, names in said.items():
        if names:
            screen.line(f"{_TOLD[what]}: {', '.join(names)}")
    if not any(said.values()):
        screen.line("Nothing has changed.")


_TOLD: Final = {
    "added": "Agents that are new",
    "changed": "Agents that have changed",
    "removed": "Agents that are gone",
    "settings": "Settings that have changed",
    "fixed": "Only a new start takes these over",
}
