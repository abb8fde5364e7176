"""`understudy config`: settings, their origins and their problems; `understudy agents`."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from supervisor.cli.failures import ERROR, OK, SettingNotFound
from supervisor.cli.options import config_option, json_option
from supervisor.cli.output import Screen, json_text
from supervisor.cli.target import load_configuration, require_configuration_file
from supervisor.cli.text_format import Cell, counted
from supervisor.configuration import agent_problems, find_program, presets, to_plain, values
from supervisor.configuration import check as check_configuration
from supervisor.core.errors import short_repr

if TYPE_CHECKING:
    from supervisor.configuration import AgentTable, ConfigProblem, Preset


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
        screen.data(found)
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


_BUILT_IN_AGENTS = (
    ("echo", "repeats the text, word by word"),
    ("scripted", "runs the steps in its text: say, tool, sleep, ask, crash ..."),
)


@attrs.frozen
class ListedAgent:
    """An agent and whether it can be started; `hint` says what to do if not."""

    name: str
    origin: str  # built in, configured, preset
    driver: str
    ready: bool
    detail: str
    hint: str | None = None


@click.command()
@config_option
@json_option
def agents(*, config_path: str | None, as_json: bool) -> None:
    """List built-in agents, configured agents and presets.

    A preset is the configuration of a well-known agent. To use one, put `[agents.NAME]` with
    `preset = "..."` into understudy.toml.
    """
    screen = Screen(as_json=as_json)
    found = list_agents(config_path)
    if as_json:
        screen.data(found)
        return
    rows = [
        (
            Cell(one.name, "bold"),
            one.origin,
            one.driver,
            _readiness(one),
            one.detail if one.hint is None else one.hint,
        )
        for one in found
    ]
    screen.table(("NAME", "FROM", "DRIVER", "", "WHAT"), rows)


def _readiness(one: ListedAgent) -> Cell:
    """Return "ready" or, for a preset, "found": the program is installed, but may not work."""
    word = "found" if one.origin == "preset" else "ready"
    return Cell(word, "green") if one.ready else Cell(f"not {word}", "dim")


def list_agents(config_path: str | None) -> list[ListedAgent]:
    """Return all agents, built-in ones first."""
    configuration = load_configuration(config_path)
    built_in = [
        ListedAgent(name, "built in", "python", True, what)  # noqa: FBT003
        for name, what in _BUILT_IN_AGENTS
    ]
    problems = {one.path: one for one in agent_problems(configuration, environ=os.environ)}
    configured = [
        _configured(agent, problems.get(f"agents.{agent.name}")) for agent in configuration.agents
    ]
    return [*built_in, *configured, *(_preset(preset) for preset in presets(os.environ))]


def _configured(agent: AgentTable, problem: ConfigProblem | None) -> ListedAgent:
    detail = agent.function or " ".join(agent.command)
    missing = agent.missing_variables(os.environ)
    hint = None
    if problem is not None:
        hint = f"{problem.problem}; {problem.hint}"
    elif missing:
        hint = f"set {', '.join(f'${name}' for name in missing)} in its environment"
    elif agent.command and find_program(agent.command, os.environ) is None:
        hint = f"the program {agent.command[0]} is not on the PATH"
    return ListedAgent(agent.name, "configured", agent.driver, hint is None, detail, hint)


def _preset(preset: Preset) -> ListedAgent:
    found = preset.found_at is not None
    detail = preset.found_at or " ".join(preset.command)
    return ListedAgent(
        preset.name, "preset", preset.driver, found, detail, None if found else preset.hint
    )
