"""`understudy agents`: who can be talked to here, and who could be."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs
import click

from supervisor.cli.ground.options import config_option, json_option
from supervisor.cli.ground.settings import load_configuration
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.configuration import find_program, presets

if TYPE_CHECKING:
    from supervisor.configuration import AgentTable, Preset

_BUILT_IN = (
    ("echo", "says the text back, word by word"),
    ("scripted", "does as its text says: say, tool, sleep, ask, crash ..."),
)


@attrs.frozen
class Listed:
    """An agent, and whether it can be started: `hint` says what to do if not."""

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
    """List agents: those that are built in, those you have configured, and presets.

    A preset is a well-known agent. Put `[agents.NAME]` with `preset = "..."` into understudy.toml
    to use one.
    """
    screen = Screen(as_json=as_json)
    found = listed(config_path)
    if as_json:
        screen.data(found)
        return
    rows = [
        (
            Cell(one.name, "bold"),
            one.origin,
            one.driver,
            _state(one),
            one.detail if one.hint is None else one.hint,
        )
        for one in found
    ]
    screen.table(("NAME", "FROM", "DRIVER", "", "WHAT"), rows)


def _state(one: Listed) -> Cell:
    """Whether it is there; that a program was found does not say that it will work."""
    word = "found" if one.origin == "preset" else "ready"
    return Cell(word, "green") if one.ready else Cell(f"not {word}", "dim")


def listed(config_path: str | None) -> list[Listed]:
    """All of them, those that are always there first."""
    configuration = load_configuration(config_path)
    built_in = [Listed(name, "built in", "python", True, what) for name, what in _BUILT_IN]  # noqa: FBT003
    configured = [_configured(agent) for agent in configuration.agents]
    return [*built_in, *configured, *(_preset(preset) for preset in presets(os.environ))]


def _configured(agent: AgentTable) -> Listed:
    detail = agent.function or " ".join(agent.command)
    missing = agent.missing(os.environ)
    hint = None
    if missing:
        hint = f"set {', '.join(f'${name}' for name in missing)} where it is started"
    elif agent.command and find_program(agent.command, os.environ) is None:
        hint = f"there is no program {agent.command[0]} on the PATH"
    return Listed(agent.name, "configured", agent.driver, hint is None, detail, hint)


def _preset(preset: Preset) -> Listed:
    found = preset.found_at is not None
    detail = preset.found_at or " ".join(preset.command)
    return Listed(
        preset.name, "preset", preset.driver, found, detail, None if found else preset.hint
    )
