"""Agents with default permissions, limits and workspace for their sessions."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions

from .port import AgentKind, Driver, DriverContext
from .runtime import DriverRuntime


@attrs.frozen
class Unrestricted:
    """The defaults of an agent that is not `Confined`."""

    permissions: Permissions = Permissions()
    limits: Limits | None = None
    workspace: str | None = None


UNRESTRICTED: Final = Unrestricted()


@attrs.frozen
class Confined:
    """An agent with default permissions, limits and workspace.

    The caller that creates a session may override them. A spawned session never gets more
    permissions than these, whatever its parent has.
    """

    agent: AgentKind
    permissions: Permissions = Permissions()
    limits: Limits | None = None
    workspace: str | None = None

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self.agent.name

    @property
    def runs_process(self) -> bool:
        """True if the agent is a process; see `AgentKind.runs_process`."""
        return self.agent.runs_process

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> Driver:
        """Return a driver of the agent."""
        return self.agent.make_driver(context, runtime)
