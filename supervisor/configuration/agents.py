"""Construction of agents from their tables, and the check of a configuration with its agents.

Drivers are imported when needed, because they take longer to import than the whole configuration.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor.core.env_values import EnvValue, format_env_value
from supervisor.core.errors import ConfigError, short_repr

from .agent_presets import login_help
from .agent_table import AgentMcpServer, AgentTable
from .loader import AnyPath, Configuration, read
from .sources import DEFAULT, ConfigProblem, config_error

if TYPE_CHECKING:
    from supervisor.drivers.port import AgentKind


def make_agents(configuration: Configuration, *, environ: Mapping[str, str]) -> list[AgentKind]:
    """Return the configured agents, for `supervisor.open(agents=...)`.

    Permissions, limits and workspace of a table apply to the sessions of its agent: see
    `supervisor.Confined`. Variables are looked up in `environ` at each start, so an agent whose
    variable is missing fails to start and the others do not. Raise one ConfigError for all
    functions that cannot be imported.
    """
    made, problems = _try_agents(configuration, environ)
    if problems:
        raise config_error(problems)
    return made


def check(
    path: AnyPath | None = None,
    *,
    cwd: AnyPath | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> list[ConfigProblem]:
    """Return all problems of one file, or of everything that `load` would read.

    The functions of agents are imported, because the daemon refuses one that cannot be.
    """
    environ = {} if environ is None else environ
    found = read(cwd=cwd, environ=environ, flags=flags, path=path)
    if found.configuration is None:
        return found.problems
    return [*found.problems, *agent_problems(found.configuration, environ=environ)]


def agent_problems(
    configuration: Configuration, *, environ: Mapping[str, str]
) -> list[ConfigProblem]:
    """Return the problems for which `make_agents` would raise; functions are imported."""
    return _try_agents(configuration, environ)[1]


def _try_agents(
    configuration: Configuration, environ: Mapping[str, str]
) -> tuple[list[AgentKind], list[ConfigProblem]]:
    made, problems = list[Any](), list[ConfigProblem]()
    for table in configuration.agents:
        try:
            made.append(make_agent(table, environ))
        except ConfigError as error:
            path = f"agents.{table.name}"
            key = "function" if table.driver == "python" else "command"
            origin = configuration.origins.get(f"{path}.{key}", DEFAULT)
            problems.append(
                ConfigProblem(path, f"is not an agent: {error.args[0]}", error.hint, origin)
            )
    return made, problems


def make_agent(table: AgentTable, environ: Mapping[str, str]) -> AgentKind:
    """Return the agent of a table; raise ConfigError if its function cannot be imported."""
    from supervisor.drivers.confined import Confined  # noqa: PLC0415 - drivers are slow to import

    agent = _MAKERS[table.driver](table, environ)
    defaults = table.session_defaults()
    return Confined(agent, **defaults) if defaults else agent


def _acp(table: AgentTable, environ: Mapping[str, str]) -> AgentKind:
    from supervisor.drivers.acp.agent import acp  # noqa: PLC0415 - drivers are slow to import
    from supervisor.drivers.acp.agent_spec import HANDSHAKE_SECONDS  # noqa: PLC0415 - as above

    wait = table.handshake_seconds
    made = acp(
        table.name,
        table.command,
        env=_texts(table.env),
        auth=table.auth,
        mcp_servers=[_server(server) for server in table.mcp_servers],
        mode=table.mode,
        options=table.options,
        handshake_seconds=HANDSHAKE_SECONDS if wait is None else wait,
        tools=table.tools or "auto",
        subagents=table.subagents or False,
    )
    login = None if table.preset is None else login_help(table.preset)
    return attrs.evolve(made, environ=environ, login=login)


def _texts(values: Mapping[str, EnvValue]) -> dict[str, str]:
    """Return the values as a program would write them for `supervisor.acp`."""
    return {name: format_env_value(value) for name, value in values.items()}


def _server(server: AgentMcpServer) -> dict[str, Any]:
    """Return the server as in ACP, with mappings that the driver turns into lists of pairs."""
    if server.url is not None:
        return {
            "type": server.transport,
            "name": server.name,
            "url": server.url,
            "headers": _texts(server.headers),
        }
    program, *args = server.command
    return {"name": server.name, "command": program, "args": args, "env": _texts(server.env)}


def _command(table: AgentTable, environ: Mapping[str, str]) -> AgentKind:
    from supervisor.drivers.command.agent import command  # noqa: PLC0415 - drivers are slow to import

    made = command(
        table.name,
        table.command,
        env=_texts(table.env),
        resume_command=table.resume_command,
        output=table.output,
        text=table.text,
        session_id_at=table.session_id_at,
    )
    return attrs.evolve(made, environ=environ)


def _python(table: AgentTable, _: Mapping[str, str]) -> AgentKind:
    from supervisor.drivers.python import PythonAgent  # noqa: PLC0415 - drivers are slow to import

    found: Any = _import_function(table.function or "")
    # A decorated function gets the name of the table instead of its own.
    function = found.function if isinstance(found, PythonAgent) else found
    return PythonAgent(table.name, function)


def _import_function(place: str) -> object:
    module, _, names = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except Exception as error:
        # An import can raise anything; it must fail this agent only.
        what = f"{type(error).__name__}: {short_repr(str(error))}"
        raise ConfigError(
            f"{place} could not be imported ({what})",
            hint="install its package, or add its directory to PYTHONPATH",
        ) from error
    return found


_MAKERS: Final[Mapping[str, Callable[[AgentTable, Mapping[str, str]], AgentKind]]] = {
    "acp": _acp,
    "command": _command,
    "python": _python,
}
