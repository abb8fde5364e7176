"""`understudy serve` and `understudy reload`: the daemon."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.failures import FileNotThere, report
from supervisor.cli.options import config_option, json_option
from supervisor.cli.output import Screen
from supervisor.cli.target import load_configuration
from supervisor.core.errors import ConfigError


@click.command()
@click.option("--tcp", metavar="PORT", help="Also listen on 127.0.0.1, with a token.")
@click.option("--socket", metavar="PATH", type=click.Path(), help="Path of the unix socket.")
@click.option(
    "--state-folder",
    metavar="FOLDER",
    type=click.Path(),
    help="Folder for the store and the token.",
)
@config_option
@json_option
def serve(*, config_path: str | None, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Run the daemon, which runs sessions and serves them to other commands.

    The first TERM or Ctrl-C lets turns end, the second interrupts them; HUP reloads the
    configuration. Exits with 0 if every turn ended by itself, with 6 if some were interrupted, with
    7 if a task did not end. With --json the log is JSON.
    """
    from supervisor.daemon import ExitCode, run  # noqa: PLC0415 - slow to import

    flags = {
        "daemon.tcp_port": options["tcp"],
        "daemon.socket": options["socket"],
        "daemon.state_folder": options["state_folder"],
        "daemon.log_format": "json" if as_json else None,
    }
    load = partial(load_configuration, config_path, flags=flags)
    try:
        configuration = load()
    except (ConfigError, FileNotThere) as error:
        # systemd does not restart a daemon that exits with 2.
        report(error, Screen(as_json=as_json))
        return ExitCode.MISCONFIGURED
    return run(configuration, load=load)


@click.command()
@config_option
@json_option
def reload(*, config_path: str | None, as_json: bool) -> int:
    """Reload the daemon's configuration; running sessions are not changed.

    Prints the changes. An invalid configuration changes nothing and is an error.
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
            screen.line(f"{_LABELS[what]}: {', '.join(names)}")
    if not any(said.values()):
        screen.line("Nothing changed.")


_LABELS: Final = {
    "added": "Agents added",
    "changed": "Agents changed",
    "removed": "Agents removed",
    "settings": "Settings changed",
    "fixed": "Restart needed for",
}
