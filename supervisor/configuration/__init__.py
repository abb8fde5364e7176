"""Configuration from files, the environment and flags; each value has its origin.

    configuration = load(cwd=Path.cwd(), environ=os.environ)
    async with supervisor.open(
        configuration.daemon.database,
        agents=make_agents(configuration, environ=os.environ),
        settings=configuration.settings,
    ) as sup: ...

`load` reads all sources or raises one `ConfigError` with every problem; `check` returns the same
problems as a list. docs/reference/settings.md lists the settings.
"""

from .agent_presets import Preset, find_program, presets
from .agent_table import AgentTable, FromEnvironment, McpServer
from .agents import agent_problems, check, make_agents
from .dump import to_plain, values
from .loader import Configuration, load
from .schema import DaemonSettings
from .sources import ConfigProblem, Origin

__all__ = [
    "AgentTable",
    "ConfigProblem",
    "Configuration",
    "DaemonSettings",
    "FromEnvironment",
    "McpServer",
    "Origin",
    "Preset",
    "agent_problems",
    "check",
    "find_program",
    "load",
    "make_agents",
    "presets",
    "to_plain",
    "values",
]
