"""`understudy serve` and `understudy reload`: the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.common_options import refuse_typed_host
from supervisor.cli.failures import OK, FileNotThere, report
from supervisor.cli.options import config_option, json_option
from supervisor.cli.output import Screen
from supervisor.cli.result_output import show_whole_fields
from supervisor.cli.target import load_configuration, open_target
from supervisor.core.errors import ConfigError, StoreLocked

if TYPE_CHECKING:
    from supervisor.client import RemoteSupervisor
    from supervisor.configuration import DaemonSettings


@click.command()
@click.option("--tcp", metavar="PORT", help="Also listen on 127.0.0.1, with a token.")
@click.option("--socket", metavar="PATH", type=click.Path(), help="Path of the unix socket.")
@click.option(
    "--state-folder",
    metavar="FOLDER",
    type=click.Path(),
    help="Folder for the store and the token.",
)
@click.option("--detach", is_flag=True, help="Return when the daemon listens; log to a file.")
@config_option
@json_option
def serve(*, config_path: str | None, detach: bool, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Run the daemon, which runs sessions and serves them to other commands.

    The first TERM or Ctrl-C lets turns end, the second interrupts them; HUP reloads the
    configuration. Exits with 0 if every turn ended by itself, with 6 if some were interrupted, with
    7 if a task did not end. With --json the log is JSON. With --detach the daemon runs in the
    background, independent of the terminal, and its process, socket and log file are printed.
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
    if detach:
        arguments = _arguments(config_path, options, as_json=as_json)
        return _detach(Screen(as_json=as_json), configuration.daemon, arguments)
    return run(configuration, load=load)


def _arguments(config_path: str | None, options: Mapping[str, Any], *, as_json: bool) -> list[str]:
    """Return the options of `serve` for a detached process."""
    given = {
        "--config": config_path,
        "--tcp": options["tcp"],
        "--socket": options["socket"],
        "--state-folder": options["state_folder"],
    }
    found = [word for name, value in given.items() if value is not None for word in (name, value)]
    return [*found, "--json"] if as_json else found


def _detach(screen: Screen, settings: DaemonSettings, arguments: list[str]) -> int:
    from supervisor.cli.daemon_start import start_daemon  # noqa: PLC0415 - only for --detach
    from supervisor.daemon.listeners import find_lock_holder  # noqa: PLC0415 - as above

    holder = find_lock_holder(settings.socket)
    if holder is not None:
        raise StoreLocked(
            f"a daemon already runs ({holder}) and has the lock of {settings.socket}",
            hint="use it: `understudy status` shows it; or end it first with `understudy down`",
        )
    started = start_daemon(screen, settings, arguments=arguments)
    if screen.as_json:
        screen.data(started)
        return OK
    if started.pid is None:
        screen.note("Another command has started the daemon.")
    show_whole_fields(
        screen,
        [
            *([("pid", str(started.pid))] if started.pid is not None else []),
            ("socket", started.socket),
            ("log", started.log),
        ],
    )
    return OK


@click.command()
@config_option
@json_option
def reload(*, config_path: str | None, as_json: bool) -> int:
    """Reload the daemon's configuration; running sessions are not changed.

    Prints the changes. An invalid configuration changes nothing and is an error.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_reload, screen, config_path))


@asynccontextmanager
async def _daemon_of(screen: Screen, config_path: str | None) -> AsyncIterator[RemoteSupervisor]:
    """Connect to the daemon of a configuration file, or to the one that commands use."""
    if config_path is None:
        async with open_target(screen) as sup:
            yield cast("RemoteSupervisor", sup)
        return
    from supervisor.client import connect_once  # noqa: PLC0415 - late

    refuse_typed_host("--config names the daemon of this machine")
    async with connect_once(load_configuration(config_path).daemon.socket) as sup:
        yield sup


async def _reload(screen: Screen, config_path: str | None) -> None:
    import attrs  # noqa: PLC0415 - late

    async with _daemon_of(screen, config_path) as sup:
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
