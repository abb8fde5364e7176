"""The checked table of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import attrs

from supervisor.core.env_values import EnvValue, FromEnvironment, missing_variables
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions

Driver: TypeAlias = Literal["acp", "command", "python"]
Transport: TypeAlias = Literal["http", "sse"]
# As `supervisor.acp` has them (a test compares).
ToolsChoice: TypeAlias = Literal["auto", "stdio", "http", "off"]
# As `supervisor.command` has them (a test compares).
OutputForm: TypeAlias = Literal["text", "json_lines"]

__all__ = ["AgentMcpServer", "AgentTable", "FromEnvironment"]


def _frozen(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(values))


def _names_only(values: Mapping[str, EnvValue]) -> str:
    return f"<{', '.join(values)}>"  # without the values, which may be secrets


_EMPTY: Final[Mapping[str, EnvValue]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class AgentMcpServer:
    """An MCP server for an agent: a command that the agent starts, or a URL."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, EnvValue] = attrs.field(
        default=_EMPTY, converter=_frozen, repr=_names_only, hash=False
    )
    url: str | None = None
    transport: Transport = "http"
    headers: Mapping[str, EnvValue] = attrs.field(
        default=_EMPTY, converter=_frozen, repr=_names_only, hash=False
    )


@attrs.frozen(kw_only=True)
class AgentTable:
    """One `[agents.NAME]`; fields that its driver does not use are empty.

    `permissions`, `limits` and `workspace` are the defaults of the agent's sessions.
    """

    name: str
    driver: Driver
    preset: str | None = None
    command: tuple[str, ...] = ()
    function: str | None = None
    env: Mapping[str, EnvValue] = attrs.field(
        default=_EMPTY, converter=_frozen, repr=_names_only, hash=False
    )
    auth: str | None = None
    mcp_servers: tuple[AgentMcpServer, ...] = ()
    mode: str | None = None
    options: Mapping[str, str | bool] = attrs.field(
        default=MappingProxyType({}), converter=_frozen, hash=False
    )
    handshake_seconds: float | None = None
    tools: ToolsChoice | None = None
    subagents: bool | None = None
    resume_command: tuple[str, ...] = ()
    output: OutputForm | None = None
    text: str | None = None
    session_id_at: str | None = None
    permissions: Permissions | None = None
    limits: Limits | None = None
    workspace: str | None = None

    def session_defaults(self) -> dict[str, Any]:
        """Return the defaults of the agent's sessions, by the argument names of `create`."""
        defaults = {name: getattr(self, name) for name in ("permissions", "limits", "workspace")}
        return {name: value for name, value in defaults.items() if value is not None}

    def missing_variables(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables that the agent needs and our environment does not have."""
        values = [*self.env.values()]
        for server in self.mcp_servers:
            values += (*server.env.values(), *server.headers.values())
        return missing_variables(values, environ)
