"""Construction of agents from their tables, and the check of a configuration with its agents.

Drivers are imported when needed, because they take longer to import than the whole configuration.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor.core.errors import ConfigError, short_repr

from .agent_table import AgentTable, FromEnvironment, McpServer, Secret
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
            made.append(_make_agent(table, environ))
        except ConfigError as error:
            path = f"agents.{table.name}"
            key = "function" if table.driver == "python" else "command"
            origin = configuration.origins.get(f"{path}.{key}", DEFAULT)
            problems.append(
                ConfigProblem(path, f"is not an agent: {error.args[0]}", error.hint, origin)
            )
    return made, problems


def _make_agent(table: AgentTable, environ: Mapping[str, str]) -> AgentKind:
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
        auth=table.auth,
        mcp_servers=[_server(table, server, environ) for server in table.mcp_servers],
        mode=table.mode,
        options=table.options,
        handshake_seconds=HANDSHAKE_SECONDS if wait is None else wait,
    )
    # Set afterwards, because acp() would look the variables up at once.
    return attrs.evolve(made, env=_EnvironmentValues(table, table.env, environ))


def _server(table: AgentTable, server: McpServer, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the server as in ACP, with mappings that the driver turns into lists of pairs."""
    if server.url is not None:
        headers = _EnvironmentValues(table, server.headers, environ)
        return {
            "type": server.transport,
            "name": server.name,
            "url": server.url,
            "headers": headers,
        }
    program, *args = server.command
    env = _EnvironmentValues(table, server.env, environ)
    return {"name": server.name, "command": program, "args": args, "env": env}


def _command(table: AgentTable, environ: Mapping[str, str]) -> AgentKind:
    from supervisor.drivers.command.agent import command  # noqa: PLC0415 - drivers are slow to import

    made = command(
        table.name,
        table.command,
        resume_command=table.resume_command,
        output=table.output,
        text=table.text,
        session_id_at=table.session_id_at,
    )
    return attrs.evolve(made, env=_EnvironmentValues(table, table.env, environ))


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


@attrs.frozen(repr=False)
class _EnvironmentValues(Mapping[str, str]):
    """Values of an agent, some of them looked up in our environment at each access.

    Reading raises LaunchFailed if a variable of the agent is missing. The agent's start is the
    first to read, and reports that error.
    """

    _table: AgentTable
    _values: Mapping[str, Secret]
    _environ: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        value = self._values[name]
        if not isinstance(value, FromEnvironment):
            return value
        self._require_variables()
        return self._environ[value.variable]

    def __iter__(self) -> Iterator[str]:
        self._require_variables()
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def _require_variables(self) -> None:
        missing = self._table.missing_variables(self._environ)
        if missing:
            from supervisor.drivers.process.processes import LaunchFailed  # noqa: PLC0415 - drivers are slow to import

            names = ", ".join(f"${name}" for name in missing)
            raise LaunchFailed(
                f"agent {self._table.name} needs {names}, which is not set in the environment"
            )
