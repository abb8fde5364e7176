"""Configuration as data: read from files, the environment and flags, each value with its origin.

    configuration = load(cwd=Path.cwd(), environ=os.environ)
    async with supervisor.open(
        configuration.daemon.database,
        agents=make_agents(configuration, environ=os.environ),
        settings=configuration.settings,
    ) as sup: ...

`load` reads it all or raises one `ConfigError` that says everything that is wrong; `check` gives
the same as a list. What may stand in it is in docs/reference/settings.md.
"""

from .agents.making import make_agents
from .agents.presets import Preset, find_program, presets
from .agents.table import AgentTable, FromEnvironment, McpServer
from .daemon import DaemonSettings
from .loading import Configuration, check, load
from .plain import plain, values
from .sources import Origin, Problem

__all__ = [
    "AgentTable",
    "Configuration",
    "DaemonSettings",
    "FromEnvironment",
    "McpServer",
    "Origin",
    "Preset",
    "Problem",
    "check",
    "find_program",
    "load",
    "make_agents",
    "plain",
    "presets",
    "values",
]
