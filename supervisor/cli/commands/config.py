"""`understudy config`: settings, their origins and their problems."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import click

from supervisor.cli.failures import ERROR, OK, SettingNotFound
from supervisor.cli.options import config_option, json_option
from supervisor.cli.output import Screen, json_text
from supervisor.cli.target import load_configuration, require_configuration_file
from supervisor.cli.text_format import Cell, counted
from supervisor.configuration import check as check_configuration
from supervisor.configuration import to_plain, values
from supervisor.core.errors import short_repr


@click.group(invoke_without_command=True, subcommand_metavar="[get|check|token]")
@config_option
@json_option
@click.pass_context
def config(ctx: click.Context, *, config_path: str | None, as_json: bool) -> None:
    """Show each setting and its origin; secrets are redacted."""
    if ctx.invoked_subcommand is not None:
        if as_json or config_path is not None:
            raise click.UsageError(f"Write options after {ctx.invoked_subcommand}.")
        return
    screen = Screen(as_json=as_json)
    configuration = load_configuration(config_path)
    if as_json:
        screen.data(to_plain(configuration))
        return
    rows = [
        (path, _toml_text(value), Cell(str(origin), "dim" if origin.kind == "default" else "green"))
        for path, value, origin in values(configuration)
    ]
    screen.table(("SETTING", "VALUE", "FROM"), rows, shrinkable=[1, 2])
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
        raise SettingNotFound(f"no setting is called {short_repr(name)}", hint=hint)
    value, origin = found[name]
    if as_json:
        screen.data({"setting": name, "value": value, "from": str(origin)})
    else:
        plain = "none" if value is None else value
        screen.line(plain if isinstance(plain, str) else json_text(plain))


def _toml_text(value: object) -> str:
    """Return the value as it is written in a file, where "none" stands for no value."""
    return '"none"' if value is None else json_text(value)


@config.command("check", short_help="List all problems of the configuration.")
@click.argument("path", metavar="[PATH]", required=False, type=click.Path())
@json_option
def check(*, path: str | None, as_json: bool) -> int:
    """List all problems in a file, or in all files that are read; exit with 1 if there are any."""
    screen = Screen(as_json=as_json)
    require_configuration_file(path)
    found = check_configuration(path, cwd=Path.cwd(), environ=os.environ)
    if as_json:
        screen.data({"items": found, "next": None})
    else:
        for problem in found:
            origin = str(problem.origin)
            screen.line(Cell(origin, "bold"), problem.sentence.removeprefix(origin))
            screen.line(Cell("  hint: ", "cyan"), problem.hint)
        screen.note(f"{counted(len(found), 'problem')}." if found else "No problems.")
    return ERROR if found else OK


@config.command("token", short_help="Print the token for TCP.")
@config_option
@json_option
def token(*, config_path: str | None, as_json: bool) -> None:
    """Print the token that programs need to use the daemon over TCP."""
    from supervisor.configuration.private_files import read_token  # noqa: PLC0415 - rarely needed

    screen = Screen(as_json=as_json)
    found = read_token(Path(load_configuration(config_path).daemon.token))
    if as_json:
        screen.data({"token": found})
    else:
        screen.line(found)
