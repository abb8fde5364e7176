"""`understudy agents`: the agents of the daemon, or of the configuration if none runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

import attrs
import click

from supervisor.cli.async_runner import run_requests
from supervisor.cli.common_options import chosen_host
from supervisor.cli.options import config_option, json_option
from supervisor.cli.output import Screen
from supervisor.cli.target import load_configuration, open_target
from supervisor.cli.text_format import Cell
from supervisor.core.agent_list import ListedAgent


@click.command()
@config_option
@json_option
def agents(*, config_path: str | None, as_json: bool) -> int:
    """List built-in agents, configured agents and presets, as the daemon knows them.

    A preset is the configuration of a well-known agent; one that is installed can be used by its
    name. Without a daemon, or with --config, the agents of the configuration are listed.
    """
    screen = Screen(as_json=as_json)
    return run_requests(screen, partial(_agents, screen, config_path))


async def _agents(screen: Screen, config_path: str | None) -> None:
    found, unknown = await _find_agents(screen, config_path)
    if screen.as_json:
        screen.data({"items": found, "next": None})
        return
    screen.table(("NAME", "FROM", "KIND", "", "VERSION", "WHAT"), map(_row, found))
    if unknown:
        names = ", ".join(unknown)
        screen.note(f"The daemon does not know {names} yet: run `understudy reload`.")


async def _find_agents(
    screen: Screen, config_path: str | None
) -> tuple[Sequence[ListedAgent], list[str]]:
    """Return the agents, and the names of configured agents that the daemon does not know."""
    from supervisor.client import NoDaemon  # noqa: PLC0415 - only for who talks to it

    if config_path is not None:
        return local_agents(config_path), []
    try:
        async with open_target(screen) as sup:
            found = await sup.agents()
    except NoDaemon:
        if chosen_host() is not None:
            raise
        screen.note("No daemon is running; these are the agents of the configuration.")
        return local_agents(None), []
    if chosen_host() is not None:
        return found, []
    known = {one.name for one in found if one.source == "configured"}
    return found, [name for name in _names_for_the_daemon() if name not in known]


def _names_for_the_daemon() -> list[str]:
    """Return the names of the agents in the files that the daemon reads."""
    from supervisor.configuration import load  # noqa: PLC0415 - slow to import

    return [table.name for table in load(cwd=None, environ=os.environ).agents]


def local_agents(config_path: str | None) -> list[ListedAgent]:
    """Return all agents of the configuration, built-in ones first; no agent is started."""
    from supervisor.configuration import AgentCatalog, agent_problems  # noqa: PLC0415 - as above

    configuration = load_configuration(config_path)
    problems = {one.path: one for one in agent_problems(configuration, environ=os.environ)}
    listed = []
    for one in AgentCatalog(configuration.agents, os.environ).listed():
        problem = problems.get(f"agents.{one.name}") if one.source == "configured" else None
        missing = one.missing if problem is None else f"{problem.problem}; {problem.hint}"
        listed.append(attrs.evolve(one, missing=missing, installed=missing is None))
    return listed


def _row(one: ListedAgent) -> tuple[Cell | str, ...]:
    """Return the cells of an agent.

    A preset is "found" instead of "ready": its program is installed, but may need a login.
    """
    word = "found" if one.source == "preset" else "ready"
    ready = Cell(word, "green") if one.installed else Cell(f"not {word}", "dim")
    what = (one.detail or "") if one.missing is None else one.missing
    return (Cell(one.name, "bold"), one.source, one.kind, ready, one.version or "", what)
