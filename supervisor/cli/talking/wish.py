"""What whoever talks with an agent has asked for: which agent, where, with which rights.

The options of `run` and `chat`, and a session that is made by them in this very process.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from supervisor.cli.ground.options import DURATION, config_option
from supervisor.cli.ground.settings import load_configuration
from supervisor.configuration import Configuration, make_agents, presets
from supervisor.core.errors import AgentUnknown, shown

if TYPE_CHECKING:  # late, for they bring all of the sessions with them
    from supervisor.sessions.surface.handle import Session
    from supervisor.sessions.surface.supervisor import Supervisor

F = TypeVar("F", bound=Callable[..., Any])
BUILT_IN: Final = ("echo", "scripted")
MODES: Final = ("deny_all", "approve_reads", "approve_all")


@attrs.frozen(kw_only=True)
class Wish:
    """As it stands on the command line."""

    agent: str
    state: str | None
    config_path: str | None
    workspace: str | None
    mode: str | None
    timeout_seconds: float | None


def wish_options(function: F) -> F:
    """The options that make a `Wish`."""
    for option in (
        click.option("--yes", is_flag=True, help="Allow all that the agent asks."),
        click.option("--mode", type=click.Choice(MODES), help="What is answered without asking."),
        click.option(
            "--timeout", metavar="TIME", type=DURATION, help="A turn may take so long: 90s, 10m."
        ),
        click.option(
            "--workspace",
            metavar="FOLDER",
            type=click.Path(exists=True, file_okay=False),
            help="Where the agent works; this folder, if not given.",
        ),
        config_option,
        click.option(
            "--state",
            metavar="PATH",
            type=click.Path(),
            help="Keep the session in this file, beside those that are in it.",
        ),
        click.option(
            "--agent", default="echo", show_default=True, metavar="NAME", help="Whom to talk with."
        ),
    ):
        function = option(function)
    return function


def wish_of(
    *,
    agent: str,
    state: str | None,
    config_path: str | None,
    workspace: str | None,
    timeout: float | None,
    mode: str | None,
    yes: bool,
) -> Wish:
    """The wish that the options make."""
    if yes and mode is not None:
        raise click.UsageError("--yes is --mode approve_all; give one of them.")
    return Wish(
        agent=agent,
        state=state,
        config_path=config_path,
        workspace=None if workspace is None else str(Path(workspace).absolute()),
        mode="approve_all" if yes else mode,
        timeout_seconds=timeout,
    )


@asynccontextmanager
async def open_session(wish: Wish) -> AsyncIterator[tuple[Supervisor, Session]]:
    """A supervisor for as long as the block lasts, and a session of the agent in it.

    Raises `AgentUnknown`, `AgentStartFailed`, and what `supervisor.open` raises.
    """
    from supervisor.runtime import open as open_supervisor  # noqa: PLC0415 - late

    configuration = _configuration(wish)
    options = session_options(configuration, wish)
    agents = make_agents(configuration, environ=os.environ)
    async with open_supervisor(
        wish.state or ":memory:", agents=agents, settings=configuration.settings
    ) as sup:
        yield sup, await sup.create(wish.agent, **options)


def session_options(configuration: Configuration, wish: Wish) -> dict[str, Any]:
    """What `create` gets: what was asked for, else what the agent's table says."""
    from supervisor.core.permissions import Permissions  # noqa: PLC0415 - late

    known = {agent.name: agent for agent in configuration.agents}
    options = known[wish.agent].session_defaults() if wish.agent in known else {}
    options["workspace"] = wish.workspace or options.get("workspace") or os.getcwd()  # noqa: PTH109 - a text
    if wish.mode is not None:
        rights = options.get("permissions") or Permissions()
        options["permissions"] = attrs.evolve(rights, mode=wish.mode)
    if wish.timeout_seconds is not None:
        options["turn_deadline_seconds"] = wish.timeout_seconds
    return options


def _configuration(wish: Wish) -> Configuration:
    """With the agent that is meant, and no more of them than a conversation needs."""
    configuration = load_configuration(wish.config_path)
    known = {agent.name: agent for agent in configuration.agents}
    if wish.agent not in (*BUILT_IN, *known):
        flags = {f"agents.{wish.agent}.preset": _preset(wish.agent, configuration)}
        configuration = load_configuration(wish.config_path, flags=flags)
    if wish.state is not None:
        return configuration  # its sessions may be anybody's
    wanted = tuple(agent for agent in configuration.agents if agent.name == wish.agent)
    return attrs.evolve(configuration, agents=wanted)


def _preset(name: str, configuration: Configuration) -> str:
    """A preset of that name which is installed needs no configuration."""
    for preset in presets(os.environ):
        if preset.name == name:
            if preset.found_at is None:
                raise AgentUnknown(
                    f"agent {name} is not installed here", hint=f"install it: {preset.hint}"
                )
            return name
    names = ", ".join((*BUILT_IN, *(agent.name for agent in configuration.agents)))
    raise AgentUnknown(
        f"no agent is called {shown(name)}",
        hint=f"there are: {names}; `understudy agents` lists presets too",
    )
