"""An agent, and what its sessions may do: for whoever configures agents once, for all sessions."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions

from .port import AgentKind, Driver, Office, Workshop


@attrs.frozen
class Free:
    """What an agent is confined to that is not confined."""

    permissions: Permissions = Permissions()
    limits: Limits | None = None
    workspace: str | None = None


FREE: Final = Free()


@attrs.frozen
class Confined:
    """An agent whose sessions have these rights, limits and workspace unless others are asked for.

    Whoever makes a session may ask for others. A session that is spawned never gets more rights
    than these, whatever its parent has.
    """

    agent: AgentKind
    permissions: Permissions = Permissions()
    limits: Limits | None = None
    workspace: str | None = None

    @property
    def name(self) -> str:
        """The agent's."""
        return self.agent.name

    @property
    def runs_process(self) -> bool:
        """As the agent does."""
        return self.agent.runs_process

    def make_driver(self, office: Office, workshop: Workshop) -> Driver:
        """The agent's."""
        return self.agent.make_driver(office, workshop)
