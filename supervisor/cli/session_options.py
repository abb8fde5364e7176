"""Options of a new session: of `new`, `spawn` and `set`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click

from supervisor.core.errors import ConfigError
from supervisor.core.limits import Limits
from supervisor.core.permissions import MODES, RIGHTS, Permissions

from .common_options import chosen_host
from .options import DURATION, LINE, NAME, TEXT, Count

F = TypeVar("F", bound=Callable[..., Any])

_LIMIT_NAMES: Final = tuple(field.name for field in attrs.fields(Limits))
_NO_LIMIT: Final = "none"


class Amount(click.ParamType[float]):
    """A number from 0, or `none` for no limit, which is returned as infinity."""

    name = "amount"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; fail as click does for other text."""
        try:
            number = float(str(value))
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            self.fail(f"{value!r} is not a number from 0", param, ctx)
        return number


def limit_options(function: F) -> F:
    """Add the options of limits and budgets."""
    for option in reversed(
        (
            click.option(
                "--limit",
                "limits",
                metavar="NAME=VALUE",
                multiple=True,
                type=TEXT,
                help=f"A limit or budget by its name: {', '.join(_LIMIT_NAMES)}; `none` for none.",
            ),
            click.option(
                "--max-children", metavar="COUNT", type=Count(0), help="As --limit max_children=."
            ),
            click.option(
                "--turns", metavar="COUNT", type=Count(0), help="Budget of turns, with descendants."
            ),
            click.option(
                "--tokens",
                metavar="COUNT",
                type=Count(0),
                help="Budget of tokens, with descendants.",
            ),
            click.option(
                "--cost", metavar="AMOUNT", type=Amount(), help="Budget of cost, with descendants."
            ),
            click.option(
                "--wall",
                "wall_seconds",
                metavar="TIME",
                type=DURATION,
                help="Budget of time in turns, with descendants: 2h.",
            ),
        )
    ):
        function = option(function)
    return function


def parse_limits(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of limits and return the given ones by their names in `Limits`.

    Raise click's `UsageError` for an unknown name, and for a value that the limit cannot have.
    """
    named: dict[str, Any] = dict(map(_split_limit, options.pop("limits")))
    for name in ("max_children", "turns", "tokens", "cost", "wall_seconds"):
        value = options.pop(name)
        if value is not None:
            named[name] = value
    try:
        attrs.evolve(Limits(), **named)
    except ConfigError as error:
        raise click.UsageError(f"{error.args[0]}: {error.hint}.") from None
    return named


def _split_limit(text: str) -> tuple[str, int | float | None]:
    name, sign, value = text.partition("=")
    if not sign or name not in _LIMIT_NAMES:
        raise click.UsageError(f"{text!r} is not NAME=VALUE with one of {', '.join(_LIMIT_NAMES)}.")
    if value == _NO_LIMIT:
        return name, None
    try:
        number = float(value)
    except ValueError:
        raise click.UsageError(f"The value of {name} is {value!r}; write a number.") from None
    is_whole = name not in ("cost", "wall_seconds")
    return name, int(number) if is_whole and number.is_integer() else number


def agent_options(function: F) -> F:
    """Add the options of the agent: its model, its effort, and others by their ids."""
    for option in reversed(
        (
            click.option("--model", metavar="MODEL", type=LINE, help="Model of the agent."),
            click.option("--effort", metavar="EFFORT", type=LINE, help="Effort of the agent."),
            click.option(
                "--option",
                "agent_options",
                metavar="NAME=VALUE",
                multiple=True,
                type=TEXT,
                help="An option that the agent offers, such as its mode; may be repeated.",
            ),
        )
    ):
        function = option(function)
    return function


def parse_agent_options(options: dict[str, Any]) -> dict[str, str | None]:
    """Remove the options of the agent and return the given ones by name.

    A value is None if nothing follows the `=`. Raise click's `UsageError` for text without a name.
    """
    named = dict(map(_split_agent_option, options.pop("agent_options")))
    short = {name: options.pop(name) for name in ("model", "effort")}
    return named | {name: value for name, value in short.items() if value is not None}


def _split_agent_option(text: str) -> tuple[str, str | None]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise click.UsageError(f"{text!r} is not NAME=VALUE.")
    return name, value or None


def session_options(function: F) -> F:
    """Add the options of `create` and `spawn`, besides limits and the workspace."""
    for option in reversed(
        (
            click.option("--name", metavar="NAME", type=NAME, help="Name of the session."),
            click.option("--title", metavar="TITLE", type=LINE, help="Title of the session."),
            click.option(
                "--tag",
                "tags",
                metavar="TAG",
                type=LINE,
                multiple=True,
                help="Tag; may be repeated.",
            ),
            click.option(
                "--mode", type=click.Choice(MODES), help="What is allowed without asking."
            ),
            click.option(
                "--permit",
                metavar="RIGHT=NAME,NAME",
                multiple=True,
                type=TEXT,
                help=f"Restrict a right to these names: {', '.join(RIGHTS)}.",
            ),
            click.option(
                "--deadline",
                "turn_deadline_seconds",
                metavar="TIME",
                type=DURATION,
                help="Maximum time of a turn: 10m.",
            ),
            click.option(
                "--on-stall",
                type=click.Choice(["notify", "interrupt", "restart", "stop"]),
                help="What happens when a turn stalls.",
            ),
        )
    ):
        function = option(function)
    return function


def parse_permissions(options: dict[str, Any]) -> Permissions | None:
    """Remove the options of permissions and return them; None if none were given."""
    sets = dict(map(_split_right, options.pop("permit")))
    mode = options.pop("mode")
    return Permissions(**sets, mode=mode) if sets or mode is not None else None


def _split_right(text: str) -> tuple[str, frozenset[str]]:
    name, sign, names = text.partition("=")
    if not sign or name not in RIGHTS:
        raise click.UsageError(f"{text!r} is not RIGHT=NAMES with one of {', '.join(RIGHTS)}.")
    return name, frozenset(one for one in names.split(",") if one)


def workspace_option(function: F) -> F:
    """Add the option `--workspace`."""
    return click.option(
        "--workspace",
        metavar="FOLDER",
        type=click.Path(),
        help="Working directory of the agent (default: this directory).",
    )(function)


def absolute_folder(workspace: str) -> str:
    """Return the absolute path, because the daemon has another working directory.

    Raise click's `UsageError` if it is not a directory.
    """
    if chosen_host() is not None:  # a path of that machine
        return workspace
    folder = Path(workspace).absolute()
    if not folder.is_dir():
        raise click.UsageError(f"--workspace {workspace}: it is not a directory.")
    return str(folder)


def current_folder() -> str | None:
    """Return the caller's folder; None if it was deleted, or the daemon runs on another host."""
    if chosen_host() is not None:
        return None
    try:
        return os.getcwd()  # noqa: PTH109 - a string is needed
    except FileNotFoundError:
        return None


def is_inside(folder: str, parent: str) -> bool:
    """Return True if a folder is the other one or lies inside it, links resolved."""
    return Path(folder).resolve().is_relative_to(Path(parent).resolve())


def without_nothing(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    empty: Sequence[object] = (None, ())
    return {name: value for name, value in options.items() if value not in empty}
