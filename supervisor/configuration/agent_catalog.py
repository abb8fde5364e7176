"""The agents of this machine: the configured ones, and the presets that are installed.

Rule 1: nothing is started. A program is searched on the PATH, and its version is read from the
        package that it lies in.
Rule 2: a configured agent hides the preset of its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from supervisor.core.agent_list import ListedAgent

from .agent_presets import PRESET_NAMES, Preset, find_preset, find_program
from .agent_table import AgentTable

if TYPE_CHECKING:
    from supervisor.drivers.port import AgentKind

BUILT_IN_AGENTS: Final = (
    ("echo", "repeats the text, word by word"),
    ("scripted", "runs the steps in its text: say, tool, sleep, ask, crash ..."),
)

# A package file is small; a larger one is not read.
_MAX_PACKAGE_BYTES: Final = 1024 * 1024


class AgentCatalog:
    """Configured agents and presets; `supervisor.open(agent_source=...)` takes one."""

    def __init__(self, tables: tuple[AgentTable, ...], environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._tables = tables

    def replace(self, tables: tuple[AgentTable, ...]) -> None:
        """Replace the configured agents."""
        self._tables = tables

    def installed(self) -> dict[str, AgentKind]:
        """Return the agents of the presets that are installed, by name."""
        found = ((name, self.find(name)) for name in PRESET_NAMES)
        return {name: agent for name, agent in found if agent is not None}

    def find(self, name: str) -> AgentKind | None:
        """Return the agent of the preset with that name, if it is installed."""
        from .agents import make_agent  # noqa: PLC0415 - drivers are slow to import

        if name not in PRESET_NAMES or any(table.name == name for table in self._tables):
            return None
        preset = find_preset(name, self._environ)
        return None if preset.found_at is None else make_agent(_table(preset), self._environ)

    def install_hints(self) -> dict[str, str]:
        """Return how to install each preset that is not installed, by name."""
        names = set(PRESET_NAMES) - {table.name for table in self._tables}
        found = (find_preset(name, self._environ) for name in PRESET_NAMES if name in names)
        return {one.name: one.hint for one in found if one.found_at is None}

    def listed(self) -> list[ListedAgent]:
        """Return built-in agents, configured agents and presets, installed or not."""
        names = {table.name for table in self._tables}
        presets = (find_preset(name, self._environ) for name in PRESET_NAMES if name not in names)
        return [
            *(
                ListedAgent(name=name, kind="python", source="built-in", detail=detail)
                for name, detail in BUILT_IN_AGENTS
            ),
            *map(self._configured, self._tables),
            *map(_preset, presets),
        ]

    def _configured(self, table: AgentTable) -> ListedAgent:
        found_at = find_program(table.command, self._environ) if table.command else None
        missing = None
        if variables := table.missing_variables(self._environ):
            missing = f"set {', '.join(f'${name}' for name in variables)} in its environment"
        elif table.command and found_at is None:
            missing = f"the program {table.command[0]} is not on the PATH"
        return ListedAgent(
            name=table.name,
            kind=table.driver,
            source="configured",
            installed=missing is None,
            missing=missing,
            version=_package_version(found_at),
            detail=table.function or " ".join(table.command),
        )


def _preset(preset: Preset) -> ListedAgent:
    is_there = preset.found_at is not None
    return ListedAgent(
        name=preset.name,
        kind=preset.driver,
        source="preset",
        installed=is_there,
        missing=None if is_there else preset.hint,
        version=_package_version(preset.found_at),
        detail=preset.found_at or " ".join(preset.command),
    )


def _table(preset: Preset) -> AgentTable:
    options: dict[str, Any] = dict(preset.options)
    return AgentTable(
        name=preset.name,
        driver=preset.driver,
        preset=preset.name,
        command=preset.command,
        **options,
    )


def _package_version(program: str | None) -> str | None:
    """Return the version of the npm package that a program lies in; None if it is in none."""
    if program is None:
        return None
    for folder in Path(os.path.realpath(program)).parents:
        package = folder / "package.json"
        try:
            if package.is_file() and package.stat().st_size <= _MAX_PACKAGE_BYTES:
                version = json.loads(package.read_bytes()).get("version")
                if isinstance(version, str):
                    return version
        except (OSError, ValueError, AttributeError):
            return None
        if folder.parent.name == "node_modules":
            return None
    return None
