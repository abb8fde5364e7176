"""Configuration of an ACP agent, as the driver reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from supervisor.core.limits import number
from supervisor.drivers.process.environment import agent_environment
from supervisor.drivers.process.processes import Launch

HANDSHAKE_SECONDS: Final = 60.0


@attrs.frozen
class AcpAgentSpec:
    """Name, command and choices of one ACP agent. `AcpAgent` adds `make_driver`."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)  # may hold API keys
    auth: str | None = None
    mcp_servers: tuple[Mapping[str, Any], ...] = attrs.field(default=(), repr=False)
    mode: str | None = None
    options: Mapping[str, str | bool] = attrs.field(factory=dict)
    handshake_seconds: float = attrs.field(
        default=HANDSHAKE_SECONDS, validator=number(least=0.0, finite=True)
    )
    runs_process: ClassVar[bool] = True

    def launch(self, workspace: str | None) -> Launch:
        """Return command, environment and working directory for a session in `workspace`."""
        return Launch(self.command, agent_environment(self.env), cwd=workspace or os.getcwd())  # noqa: PTH109 - Launch takes str
