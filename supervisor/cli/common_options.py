"""Options that the group adds to commands: `--host` to those that use the daemon, `--no-start`.

Rule 1: a command does not see these options. Their values are in click's context, where
        `open_target` and `reach_daemon` find them.
"""

from __future__ import annotations

from typing import Final

import click
from click.core import ParameterSource

from supervisor.configuration.paths import HOST_VARIABLE

# Commands that use no daemon, or only that of this machine.
LOCAL_COMMANDS: Final = frozenset(
    {
        "agents",
        "chat",
        "completion",
        "config",
        "demo",
        "doctor",
        "down",
        "hosts",
        "logs",
        "query",
        "restore",
        "serve",
        "service",
        "version",
    }
)
# Commands that start the daemon if it is not running.
STARTING_COMMANDS: Final = frozenset({"acp", "attach", "mcp", "new", "run", "send", "top"})

_HOST: Final = "supervisor.cli.host"
_HOST_IS_TYPED: Final = "supervisor.cli.host_is_typed"
_NO_START: Final = "supervisor.cli.no_start"


def add_common_options(name: str, command: click.Command) -> None:
    """Add the options that the command of this name takes, unless it has them."""
    known = {one.name for one in command.params}
    if name in STARTING_COMMANDS and "no_start" not in known:
        command.params.append(
            click.Option(
                ["--no-start"],
                is_flag=True,
                expose_value=False,
                callback=_remember_no_start,
                help="Do not start the daemon.",
            )
        )
    if name not in LOCAL_COMMANDS and "host" not in known:
        command.params.append(
            click.Option(
                ["--host"],
                metavar="NAME",
                envvar=HOST_VARIABLE,
                expose_value=False,
                callback=_remember_host,
                help="Use the daemon of this host; see understudy hosts.",
            )
        )


def _remember_no_start(context: click.Context, _: click.Parameter, value: object) -> None:
    context.meta[_NO_START] = bool(value)


def _remember_host(context: click.Context, _: click.Parameter, value: str | None) -> None:
    context.meta[_HOST] = value or None
    typed = context.get_parameter_source("host") is ParameterSource.COMMANDLINE
    context.meta[_HOST_IS_TYPED] = typed


def chosen_host() -> str | None:
    """Return the name given with `--host` or in the environment; None for this machine."""
    context = click.get_current_context(silent=True)
    host: str | None = None if context is None else context.meta.get(_HOST)
    return host


def refuse_typed_host(reason: str) -> None:
    """Raise `click.UsageError` if `--host` was typed; one of the environment is passed over."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_HOST_IS_TYPED):
        raise click.UsageError(f"--host {context.meta[_HOST]}: {reason}")


def is_start_refused() -> bool:
    """Return True if `--no-start` was given."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_NO_START))
