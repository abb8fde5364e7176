"""Configuration of an ACP agent, as the driver reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from supervisor.core.env_values import EnvValue
from supervisor.core.limits import number, one_of
from supervisor.drivers.agent_tools import ToolsSetting
from supervisor.drivers.process.environment import agent_environment, require_variables
from supervisor.drivers.process.processes import Launch

from .mcp_servers import resolve_servers, values_of

HANDSHAKE_SECONDS: Final = 60.0


@attrs.frozen
class LoginHelp:
    """How users log in to a well-known agent: what to run, and the variable of a key."""

    run: str
    variable: str | None = None
    preset: str | None = None


@attrs.frozen
class AcpAgentSpec:
    """Name, command and choices of one ACP agent. `AcpAgent` adds `make_driver`."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, EnvValue] = attrs.field(factory=dict, repr=False)  # may hold API keys
    auth: str | None = None
    mcp_servers: tuple[Mapping[str, Any], ...] = attrs.field(default=(), repr=False)
    mode: str | None = None
    options: Mapping[str, str | bool] = attrs.field(factory=dict)
    handshake_seconds: float = attrs.field(
        default=HANDSHAKE_SECONDS, validator=number(least=0.0, finite=True)
    )
    # How the agent gets our own tools, see `own_tools`.
    tools: ToolsSetting = attrs.field(default="auto", validator=one_of(ToolsSetting))
    # Whether the agent reports its subagents, which are then recorded; see `subagents`.
    subagents: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    # Where the variables are looked up that `env` and the servers name.
    environ: Mapping[str, str] = attrs.field(default=os.environ, repr=False, eq=False)
    # How to log in, for the error of an agent that requires it.
    login: LoginHelp | None = attrs.field(default=None, eq=False)
    runs_process: ClassVar[bool] = True

    def launch(self, workspace: str | None) -> Launch:
        """Return command, environment and working directory for a session in `workspace`.

        Raise `ConfigError` if a variable that the agent or one of its servers names is not set.
        """
        require_variables(
            self.name, (*self.env.values(), *values_of(self.mcp_servers)), self.environ
        )
        environment = agent_environment(self.env, self.environ)
        return Launch(self.command, environment, cwd=workspace or os.getcwd())  # noqa: PTH109 - Launch takes str

    def resolved_servers(self) -> list[dict[str, Any]]:
        """Return the MCP servers with the values of the variables that they name."""
        return resolve_servers(self.mcp_servers, self.environ)
