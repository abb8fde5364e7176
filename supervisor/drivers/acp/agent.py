"""Agents that speak the Agent Client Protocol: `acp` and `scripted_process`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.validation import check_agent_name
from supervisor.drivers.agent_tools import ToolsSetting
from supervisor.drivers.port import DriverContext
from supervisor.drivers.process.environment import check_command, check_env
from supervisor.drivers.runtime import DriverRuntime

from .agent_spec import HANDSHAKE_SECONDS, AcpAgentSpec
from .driver import AcpDriver
from .mcp_servers import check_servers

__all__ = ["HANDSHAKE_SECONDS", "AcpAgent", "acp", "scripted_process"]


@attrs.frozen
class AcpAgent(AcpAgentSpec):
    """An agent that speaks ACP; `supervisor.acp(...)` returns one."""

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> AcpDriver:
        """Return a driver for one session."""
        return AcpDriver(self, context, runtime)


def acp(
    name: str,
    command: Iterable[str],
    *,
    env: Mapping[str, str] | None = None,
    auth: str | None = None,
    mcp_servers: Iterable[Mapping[str, Any]] = (),
    mode: str | None = None,
    options: Mapping[str, str | bool] | None = None,
    handshake_seconds: float = HANDSHAKE_SECONDS,
    tools: ToolsSetting = "auto",
    subagents: bool = False,
) -> AcpAgent:
    """Return an agent that runs as a process, for example `acp("gemini", ["gemini", "--acp"])`.

    `env` is added to the allow-list of variables that every agent gets; the value `"$NAME"` is that
    of the supervisor's variable NAME when the agent starts, and `"$$"` begins with a literal dollar
    sign. `auth` is the id of the
    authentication method to use if the agent requires one. `mcp_servers` are passed to the agent as
    far as the session's permissions allow them by name. `mode` and `options` are set when a
    conversation starts, and again when a new process resumes it; a new conversation fails to start
    if the agent does not offer them. `tools` says how the agent gets the tools of its session, as
    the MCP server `understudy`: over stdio, over HTTP, not at all, or as it suits the agent.
    With `subagents` the agent is asked to report the agents that it runs itself, and each change of
    one is recorded; that part of the protocol is not stable yet.

    Raise `ConfigError` for an invalid argument.
    """
    return AcpAgent(
        check_agent_name(name),
        check_command(name, command),
        check_env(name, env),
        None if auth is None else _checked_text("auth", auth),
        check_servers(name, mcp_servers),
        None if mode is None else _checked_text("mode", mode),
        _checked_options(name, options),
        handshake_seconds,
        tools,
        subagents,
    )


def scripted_process(
    name: str = "scripted-process", flags: Iterable[str] = (), *, subagents: bool = False
) -> AcpAgent:
    """Return the scripted agent as a real ACP process; see docs/reference/scripted.md.

    The agent needs no model, and its flags make it misbehave.
    """
    # -P: never import a folder called supervisor from the workspace.
    command = [sys.executable, "-P", "-m", "supervisor.drivers.scripted", *flags]
    return acp(name, command, subagents=subagents)


def _checked_options(name: str, options: object) -> dict[str, str | bool]:
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(map(_is_option, options.items())):
        raise ConfigError(
            f"the options of agent {short_repr(name)} are {short_repr(options)}",
            hint='use {"option": "value"}, or True or False for a switch',
        )
    return dict(options)


def _is_option(item: tuple[object, object]) -> bool:
    option, value = item
    return isinstance(option, str) and bool(option.strip()) and isinstance(value, str | bool)


def _checked_text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{field} is {short_repr(value)}", hint="use a non-empty text")
    return value
