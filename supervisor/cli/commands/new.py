"""`understudy new` and `understudy spawn`: create a session, or a child of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import click

from supervisor.cli.async_runner import run_requests
from supervisor.cli.common_options import chosen_host
from supervisor.cli.options import DURATION, LINE, TEXT, input_text, json_option
from supervisor.cli.output import Screen
from supervisor.cli.result_output import show_created
from supervisor.cli.session_fields import unmet_wishes
from supervisor.cli.session_options import (
    absolute_folder,
    agent_options,
    current_folder,
    is_inside,
    limit_options,
    parse_agent_options,
    parse_limits,
    parse_permissions,
    session_options,
    without_nothing,
    workspace_option,
)
from supervisor.cli.target import find_session, load_configuration, open_target
from supervisor.core.errors import AgentUnknown, SupervisorError

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.info import Info


@click.command()
@click.argument("agent", metavar="AGENT")
@click.option("--key", metavar="KEY", help="Key of the session: agent:channel:peer[:thread].")
@session_options
@workspace_option
@limit_options
@agent_options
@click.option("--message", "-m", metavar="TEXT", type=TEXT, help="Send this text first.")
@json_option
def new(*, agent: str, message: str | None, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Create a session of an agent and print its id.

    Its agent works in this directory, unless --workspace or the configuration of the agent names
    another one.
    """
    screen = Screen(as_json=as_json)
    limits = parse_limits(options)
    asked = _parse(options)
    return run_requests(screen, partial(_new, screen, agent, asked, limits, message))


def _parse(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for `create` or `spawn`."""
    permissions, workspace = parse_permissions(options), options.pop("workspace")
    wanted = parse_agent_options(options) or None
    folder = None if workspace is None else absolute_folder(workspace)
    return without_nothing(
        {**options, "permissions": permissions, "workspace": folder, "options": wanted}
    )


async def _new(
    screen: Screen,
    agent: str,
    options: dict[str, Any],
    limits: dict[str, Any],
    message: str | None,
) -> None:
    check = partial(_refuse_unknown, agent)
    async with open_target(screen, start=True, before_start=check) as sup:
        if "workspace" not in options:
            options["workspace"] = await _default_workspace(sup, agent)
        with _reload_hinted(agent):
            made = await sup.create(agent, **options)
        if limits:  # the limits that are not named stay those of the settings
            await made.set(limits=limits)
        if message is not None:
            await made.send(message)
        info = await made.info()
        show_created(screen, info)
        _note_unmet_wishes(screen, info)


def _note_unmet_wishes(screen: Screen, info: Info) -> None:
    """Tell the user which options the agent of a new session did not set."""
    unmet = ", ".join(unmet_wishes(info))
    if unmet:
        screen.note(f"The agent did not set {unmet}: `understudy log {info.id}` says why.")


def _refuse_unknown(agent: str) -> None:
    """Raise `AgentUnknown` if a daemon that is started now would not have the agent."""
    from supervisor.configuration.agent_catalog import AgentCatalog  # noqa: PLC0415 - slow to import
    from supervisor.core.agent_list import agent_unknown  # noqa: PLC0415 - as above

    catalog = AgentCatalog(load_configuration(None).agents, os.environ)
    hints = catalog.install_hints()
    known = {one.name for one in catalog.listed()} - hints.keys()
    if agent not in known:
        raise agent_unknown(agent, known, hints)


@contextmanager
def _reload_hinted(agent: str) -> Iterator[None]:
    """Say that a reload is missing if the configuration has the agent, and the daemon does not."""
    try:
        yield
    except AgentUnknown as error:
        error.hint = _reload_hint(agent) or error.hint
        raise


def _reload_hint(agent: str) -> str | None:
    from supervisor.configuration import load  # noqa: PLC0415 - only for an error
    from supervisor.configuration.paths import configuration_files  # noqa: PLC0415 - as above

    if chosen_host() is not None:
        return None  # its files are on another machine
    with suppress(SupervisorError):  # an invalid file has no agents
        if agent in {one.name for one in load(cwd=None, environ=os.environ).agents}:
            return "the configuration has it, and the daemon not yet: run `understudy reload`"
        if agent in {one.name for one in load_configuration(None).agents}:
            return (
                "the file understudy.toml of this folder has it, which a daemon reads only if it"
                " was started here: move it to"
                f" {configuration_files(None, os.environ)[-1]}, and run `understudy reload`"
            )
    return None


async def _default_workspace(sup: Target, agent: str) -> str | None:
    """Return the caller's folder; None if the agent is configured with a workspace."""
    for one in await sup.agents():
        if one.name == agent and one.workspace is not None:
            return None
    return current_folder()


@click.command()
@click.argument("session", metavar="ID")
@click.argument("agent", metavar="AGENT")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@click.option("--role", default="worker", type=LINE, show_default=True, help="Role of the child.")
@session_options
@workspace_option
@limit_options
@agent_options
@click.option("--ttl", "ttl_seconds", metavar="TIME", type=DURATION, help="Stop after: 10m.")
@click.option("--detached", is_flag=True, help="Keep the child when its parent stops.")
@click.option("--wake", is_flag=True, help="Start a turn of the parent when the child ends.")
@json_option
def spawn(
    *,
    session: str,
    agent: str,
    words: tuple[str, ...],
    detached: bool,
    wake: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click's options
) -> int:
    """Create a child of a session, send it TEXT, and print its id.

    Without TEXT, or with -, it is read from standard input.

    It works in this directory if that is inside the directory of its parent, else in that of its
    parent.
    """
    screen = Screen(as_json=as_json)
    limits = parse_limits(options)
    asked = {
        **_parse(options),
        "lifetime": "detached" if detached else "with_parent",
        "on_end": "wake" if wake else "tell",
    }
    first = agent, input_text(words)
    return run_requests(screen, partial(_spawn, screen, session, first, asked, limits))


async def _spawn(
    screen: Screen,
    session: str,
    agent_and_text: tuple[str, str],
    options: dict[str, Any],
    limits: dict[str, Any],
) -> None:
    async with open_target(screen) as sup:
        parent = await find_session(sup, session)
        above = await parent.info()
        if limits:
            options["limits"] = attrs.evolve(above.limits, **limits)
        if "workspace" not in options:
            options["workspace"] = _child_workspace(screen, above.workspace)
        with _reload_hinted(agent_and_text[0]):
            child = await parent.spawn(*agent_and_text, **options)
        info = await child.info()
        show_created(screen, info)
        _note_unmet_wishes(screen, info)


def _child_workspace(screen: Screen, parents: str | None) -> str | None:
    """Return the caller's folder, or None to inherit the parent's."""
    folder = current_folder()
    if folder is None or parents is None or is_inside(folder, parents):
        return folder
    screen.note(f"The child works in its parent's {parents}: {folder} is not inside it.")
    return None
