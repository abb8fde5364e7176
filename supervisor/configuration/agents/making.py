"""From an agent's table to the agent: the one place that knows how each driver wants it.

Drivers are imported when they are wanted, for they take longer to come up than all of this.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor.configuration.sources import DEFAULT, Problem, refusal
from supervisor.core.errors import ConfigError, shown

from .table import AgentTable, FromEnvironment, McpServer, Secret

if TYPE_CHECKING:
    from supervisor.configuration.loading import Configuration
    from supervisor.drivers.port import AgentKind


def make_agents(configuration: Configuration, *, environ: Mapping[str, str]) -> list[AgentKind]:
    """The configured agents, as `supervisor.open(agents=...)` takes them.

    What a table says of sessions confines those of its agent: see `supervisor.Confined`. Variables
    that agents want from `environ` are looked up each time one starts: whoever lacks one does not
    start, and the others do. Raises one `ConfigError` for all functions that are not to be had.
    """
    made, problems = list[Any](), list[Problem]()
    for table in configuration.agents:
        try:
            made.append(_make(table, environ))
        except ConfigError as error:
            path = f"agents.{table.name}"
            key = "function" if table.driver == "python" else "command"
            origin = configuration.origins.get(f"{path}.{key}", DEFAULT)
            problems.append(Problem(path, f"is no agent: {error.args[0]}", error.hint, origin))
    if problems:
        raise refusal(problems)
    return made


def _make(table: AgentTable, environ: Mapping[str, str]) -> AgentKind:
    from supervisor.drivers.confined import Confined  # noqa: PLC0415 - late

    agent = _MAKERS[table.driver](table, environ)
    confines = table.session_defaults()
    return Confined(agent, **confines) if confines else agent


def _acp(table: AgentTable, environ: Mapping[str, str]) -> AgentKind:
    from supervisor.drivers.acp.agent import HANDSHAKE_SECONDS, acp  # noqa: PLC0415 - late

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
    # Not given above, where the variables would be looked up at once.
    return attrs.evolve(made, env=_LookedUp(table, table.env, environ))


def _server(table: AgentTable, server: McpServer, environ: Mapping[str, str]) -> dict[str, Any]:
    """The server as the protocol has it, but for lists of pairs, which the driver makes."""
    if server.url is not None:
        headers = _LookedUp(table, server.headers, environ)
        return {
            "type": server.transport,
            "name": server.name,
            "url": server.url,
            "headers": headers,
        }
    program, *args = server.command
    env = _LookedUp(table, server.env, environ)
    return {"name": server.name, "command": program, "args": args, "env": env}


def _command(table: AgentTable, environ: Mapping[str, str]) -> AgentKind:
    from supervisor.drivers.command.agent import command  # noqa: PLC0415 - late

    made = command(
        table.name,
        table.command,
        resume_command=table.resume_command,
        output=table.output,
        text=table.text,
        session_id_at=table.session_id_at,
    )
    return attrs.evolve(made, env=_LookedUp(table, table.env, environ))


def _python(table: AgentTable, _: Mapping[str, str]) -> AgentKind:
    from supervisor.drivers.python import PythonAgent  # noqa: PLC0415 - late

    found: Any = _import(table.function or "")
    # Decorated or not: here it has the name that the configuration gives it.
    function = found.function if isinstance(found, PythonAgent) else found
    return PythonAgent(table.name, function)


def _import(place: str) -> object:
    module, _, names = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except Exception as error:
        # Whatever the module does when it is imported, it is that agent's trouble alone.
        what = f"{type(error).__name__}: {shown(str(error))}"
        raise ConfigError(
            f"{place} could not be imported ({what})",
            hint="install its package, or put its folder on PYTHONPATH",
        ) from error
    return found


_MAKERS: Final[Mapping[str, Callable[[AgentTable, Mapping[str, str]], AgentKind]]] = {
    "acp": _acp,
    "command": _command,
    "python": _python,
}


@attrs.frozen(repr=False)
class _LookedUp(Mapping[str, str]):
    """Values of an agent, of which some are taken from our environment whenever they are read.

    Raises `LaunchFailed` if anything is missing that the agent wants, here or elsewhere: what is
    read first is read when it starts, and that is where it can be said.
    """

    _table: AgentTable
    _values: Mapping[str, Secret]
    _environ: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        value = self._values[name]
        if not isinstance(value, FromEnvironment):
            return value
        self._refuse_if_missing()
        return self._environ[value.variable]

    def __iter__(self) -> Iterator[str]:
        self._refuse_if_missing()
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def _refuse_if_missing(self) -> None:
        missing = self._table.missing(self._environ)
        if missing:
            from supervisor.drivers.process.port import LaunchFailed  # noqa: PLC0415 - late

            names = ", ".join(f"${name}" for name in missing)
            raise LaunchFailed(
                f"agent {self._table.name} is to get {names}, which is not set where it is started"
            )
