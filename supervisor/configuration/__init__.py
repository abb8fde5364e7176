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

from importlib import import_module

TYPE_CHECKING = False  # not from `typing`, which takes long to import
if TYPE_CHECKING:
    from .agent_catalog import AgentCatalog
    from .agent_presets import Preset, find_program, presets
    from .agent_table import AgentMcpServer, AgentTable, FromEnvironment
    from .agents import agent_problems, check, make_agents
    from .dump import to_plain, values
    from .loader import Configuration, load
    from .schema import DaemonSettings
    from .sources import ConfigProblem, Origin

# The module of each name. It is imported on its first use, because most commands only need `paths`.
_MODULES = {
    "agent_catalog": ("AgentCatalog",),
    "agent_presets": ("Preset", "find_program", "presets"),
    "agent_table": ("AgentTable", "FromEnvironment", "AgentMcpServer"),
    "agents": ("agent_problems", "check", "make_agents"),
    "dump": ("to_plain", "values"),
    "loader": ("Configuration", "load"),
    "schema": ("DaemonSettings",),
    "sources": ("ConfigProblem", "Origin"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AgentCatalog",
    "AgentMcpServer",
    "AgentTable",
    "ConfigProblem",
    "Configuration",
    "DaemonSettings",
    "FromEnvironment",
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


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)
