"""Options of `run` and `chat`, and the session that they open in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from supervisor.cli.options import DURATION, config_option
from supervisor.cli.target import load_configuration
from supervisor.configuration import Configuration, make_agents, presets
from supervisor.core.errors import AgentUnknown, short_repr

if TYPE_CHECKING:  # imported late: they load the whole session runtime
    from supervisor.handles.session import Session
    from supervisor.handles.supervisor import Supervisor

F = TypeVar("F", bound=Callable[..., Any])
BUILT_IN: Final = ("echo", "scripted")
MODES: Final = ("deny_all", "approve_reads", "approve_all")


@attrs.frozen(kw_only=True)
class RunOptions:
    """The options as given on the command line."""

    agent: str
    state: str | None
    config_path: str | None
    workspace: str | None
    mode: str | None
    timeout_seconds: float | None


def add_run_options(function: F) -> F:
    """Add the options of `RunOptions`."""
    for option in (
        click.option("--yes", is_flag=True, help="Allow everything the agent requests."),
        click.option("--mode", type=click.Choice(MODES), help="What is allowed without asking."),
        click.option(
            "--timeout", metavar="TIME", type=DURATION, help="Maximum time of a turn: 90s, 10m."
        ),
        click.option(
            "--workspace",
            metavar="FOLDER",
            type=click.Path(exists=True, file_okay=False),
            help="Working directory of the agent (default: this directory).",
        ),
        config_option,
        click.option(
            "--state",
            metavar="PATH",
            type=click.Path(),
            help="Keep the session in this store file.",
        ),
        click.option(
            "--agent", default="echo", show_default=True, metavar="NAME", help="Agent to use."
        ),
    ):
        function = option(function)
    return function


def parse_run_options(
    *,
    agent: str,
    state: str | None,
    config_path: str | None,
    workspace: str | None,
    timeout: float | None,
    mode: str | None,
    yes: bool,
) -> RunOptions:
    """Return the checked options."""
    if yes and mode is not None:
        raise click.UsageError("--yes means --mode approve_all; give only one of them.")
    return RunOptions(
        agent=agent,
        state=state,
        config_path=config_path,
        workspace=None if workspace is None else str(Path(workspace).absolute()),
        mode="approve_all" if yes else mode,
        timeout_seconds=timeout,
    )


@asynccontextmanager
async def open_session(options: RunOptions) -> AsyncIterator[tuple[Supervisor, Session]]:
    """Yield a session of the agent in a supervisor that runs during the block.

    Raise `AgentUnknown`, `AgentStartFailed`, and the errors of `supervisor.open`.
    """
    from supervisor.runtime import open as open_supervisor  # noqa: PLC0415 - slow to import

    configuration = _configuration(options)
    create_options = session_options(configuration, options)
    agents = make_agents(configuration, environ=os.environ)
    async with open_supervisor(
        options.state or ":memory:", agents=agents, settings=configuration.settings
    ) as sup:
        yield sup, await sup.create(options.agent, **create_options)


def session_options(configuration: Configuration, options: RunOptions) -> dict[str, Any]:
    """Return the options for `create`: the given ones, else those of the agent's table."""
    from supervisor.core.permissions import Permissions  # noqa: PLC0415 - slow to import

    known = {agent.name: agent for agent in configuration.agents}
    create_options = known[options.agent].session_defaults() if options.agent in known else {}
    workspace = options.workspace or create_options.get("workspace")
    create_options["workspace"] = workspace or os.getcwd()  # noqa: PTH109 - a string is needed
    if options.mode is not None:
        rights = create_options.get("permissions") or Permissions()
        create_options["permissions"] = attrs.evolve(rights, mode=options.mode)
    if options.timeout_seconds is not None:
        create_options["turn_deadline_seconds"] = options.timeout_seconds
    return create_options


def _configuration(options: RunOptions) -> Configuration:
    """Return the configuration with the agent, and without agents that are not needed."""
    configuration = load_configuration(options.config_path)
    known = {agent.name: agent for agent in configuration.agents}
    if options.agent not in (*BUILT_IN, *known):
        flags = {f"agents.{options.agent}.preset": _installed_preset(options.agent, configuration)}
        configuration = load_configuration(options.config_path, flags=flags)
    if options.state is not None:
        return configuration  # sessions in the file may belong to any agent
    wanted = tuple(agent for agent in configuration.agents if agent.name == options.agent)
    return attrs.evolve(configuration, agents=wanted)


def _installed_preset(name: str, configuration: Configuration) -> str:
    """Return the installed preset of that name, which needs no configuration."""
    for preset in presets(os.environ):
        if preset.name == name:
            if preset.found_at is None:
                raise AgentUnknown(
                    f"agent {name} is not installed", hint=f"install it: {preset.hint}"
                )
            return name
    names = ", ".join((*BUILT_IN, *(agent.name for agent in configuration.agents)))
    raise AgentUnknown(
        f"unknown agent {short_repr(name)}",
        hint=f"use one of {names}; `understudy agents` lists presets too",
    )
