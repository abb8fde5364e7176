"""`understudy version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import click

from supervisor.cli.ground.options import json_option
from supervisor.cli.terminal.screen import Screen

PARTS = ("trio", "attrs", "click", "rich", "hypercorn", "starlette", "httpx")


@click.command()
@json_option
def version(*, as_json: bool) -> None:
    """Print the version, and with --json those of all that it stands on."""
    screen = Screen(as_json=as_json)
    if as_json:
        screen.data(versions())
    else:
        screen.line(f"understudy {installed('understudy')}")


def versions() -> dict[str, str | None]:
    """Of everything that matters when something is wrong."""
    found = {"understudy": installed("understudy"), "python": platform.python_version()}
    return {**found, "sqlite": sqlite_version(), **{name: installed(name) for name in PARTS}}


def installed(name: str) -> str | None:
    """The version of a distribution; None if it is not there."""
    try:
        return version_of(name)
    except PackageNotFoundError:
        return None


def sqlite_version() -> str:
    """That of the library, which is not Python's."""
    # Only the store knows SQL, and this knows none: it reads a number.
    from importlib import import_module  # noqa: PLC0415 - late

    return str(import_module("sqlite3").sqlite_version)
