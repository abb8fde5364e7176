"""`understudy completion` and `understudy version`, and the versions of the dependencies."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import click
from click.shell_completion import get_completion_class

from supervisor.cli.options import json_option
from supervisor.cli.output import Screen

DEPENDENCIES = ("trio", "attrs", "click", "rich", "hypercorn", "starlette", "httpx")


def versions() -> dict[str, str | None]:
    """Return all versions that matter in a bug report."""
    found = {"understudy": installed_version("understudy"), "python": platform.python_version()}
    return {
        **found,
        "sqlite": sqlite_version(),
        **{name: installed_version(name) for name in DEPENDENCIES},
    }


def installed_version(name: str) -> str | None:
    """Return the version of a distribution; None if it is not installed."""
    try:
        return version_of(name)
    except PackageNotFoundError:
        return None


def sqlite_version() -> str:
    """Return the version of the SQLite library, not of Python's module."""
    # Only the store uses SQL; this reads a constant.
    from importlib import import_module  # noqa: PLC0415 - rarely needed

    return str(import_module("sqlite3").sqlite_version)


_VARIABLE = "_UNDERSTUDY_COMPLETE"

_DESTINATIONS = {
    "bash": "~/.local/share/bash-completion/completions/understudy",
    "zsh": "_understudy in a folder of your $fpath",
    "fish": "~/.config/fish/completions/understudy.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(*, shell: str, as_json: bool) -> None:
    """Print the code that makes your shell complete commands and options.

    Save the output: for bash as ~/.local/share/bash-completion/completions/understudy, for fish as
    ~/.config/fish/completions/understudy.fish, for zsh as _understudy in a folder of $fpath.
    """
    from supervisor.cli.bash_completion import register  # noqa: PLC0415 - only for the shell
    from supervisor.cli.group import commands  # noqa: PLC0415 - the group imports this module

    register()
    screen = Screen(as_json=as_json)
    kind = get_completion_class(shell)
    assert kind is not None  # click has a class for each of the three
    complete = kind(commands, {}, "understudy", _VARIABLE)
    # Not `source()`, which starts a bash to find its version.
    script = complete.source_template % complete.source_vars()
    # Words and their descriptions may contain commas.
    script = script.replace('(string split "," $completion)', '(string split -m 1 "," $completion)')
    if as_json:
        screen.data({"shell": shell, "script": script})
        return
    screen.write(script)
    if screen.is_terminal:
        screen.note(f"Save it as {_DESTINATIONS[shell]}.")


@click.command()
@json_option
def version(*, as_json: bool) -> None:
    """Print the version, and with --json the versions of all dependencies."""
    screen = Screen(as_json=as_json)
    if as_json:
        screen.data(versions())
    else:
        screen.line(f"understudy {installed_version('understudy')}")
