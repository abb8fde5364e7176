"""`understudy config`: each value and its origin, and whether all of it can be meant."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import click

from supervisor.cli.ground.failures import ERROR, OK, SettingNotFound
from supervisor.cli.ground.options import config_option, json_option
from supervisor.cli.ground.settings import load_configuration
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen, json_text
from supervisor.configuration import check as check_configuration
from supervisor.configuration import plain, values
from supervisor.core.errors import shown


@click.group(invoke_without_command=True, subcommand_metavar="[get|check|token]")
@config_option
@json_option
@click.pass_context
def config(ctx: click.Context, *, config_path: str | None, as_json: bool) -> None:
    """Show each setting and where it comes from; secrets are covered."""
    if ctx.invoked_subcommand is not None:
        if as_json or config_path is not None:
            raise click.UsageError(f"Write options after {ctx.invoked_subcommand}.")
        return
    screen = Screen(as_json=as_json)
    configuration = load_configuration(config_path)
    if as_json:
        screen.data(plain(configuration))
        return
    rows = [
        (path, json_text(value), Cell(str(origin), "dim" if origin.kind == "default" else "green"))
        for path, value, origin in values(configuration)
    ]
    screen.table(("SETTING", "VALUE", "FROM"), rows, stretch=[1, 2])
    read = ", ".join(configuration.files)
    screen.note(f"Read: {read}" if read else "No file was read; these are the defaults.")


@config.command("get", short_help="Print the value of one setting.")
@click.argument("name", metavar="SETTING")
@config_option
@json_option
def get(*, name: str, config_path: str | None, as_json: bool) -> None:
    """Print the value of one setting, for programs: `understudy config get daemon.socket`."""
    screen = Screen(as_json=as_json)
    found = {
        path: (value, origin) for path, value, origin in values(load_configuration(config_path))
    }
    if name not in found:
        close = difflib.get_close_matches(name, found, n=1)
        hint = f"did you mean {close[0]}?" if close else "`understudy config` lists them"
        raise SettingNotFound(f"no setting is called {shown(name)}", hint=hint)
    value, origin = found[name]
    if as_json:
        screen.data({"setting": name, "value": value, "from": str(origin)})
    else:
        screen.line(value if isinstance(value, str) else json_text(value))


@config.command("check", short_help="Say all that is wrong.")
@click.argument("path", metavar="[PATH]", required=False, type=click.Path())
@json_option
def check(*, path: str | None, as_json: bool) -> int:
    """Say all that is wrong in a file, or in all that is read; exits with 1 if something is."""
    screen = Screen(as_json=as_json)
    found = check_configuration(path, cwd=Path.cwd(), environ=os.environ)
    if as_json:
        screen.data(found)
    else:
        for problem in found:
            screen.line(Cell(f"{problem.origin}: ", "bold"), f"{problem.path} {problem.problem}")
            screen.line(Cell("  hint: ", "cyan"), problem.hint)
        screen.note("Nothing is wrong." if not found else f"{len(found)} to mend.")
    return ERROR if found else OK


@config.command("token", short_help="Print the token for TCP.")
@config_option
@json_option
def token(*, config_path: str | None, as_json: bool) -> None:
    """Print the token that programs need to talk to the daemon over TCP; nothing else does."""
    from supervisor.daemon import read_token  # noqa: PLC0415 - late

    screen = Screen(as_json=as_json)
    found = read_token(Path(load_configuration(config_path).daemon.token))
    if as_json:
        screen.data({"token": found})
    else:
        screen.line(found)
