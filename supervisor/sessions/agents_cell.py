"""The registered agents, and the port to agents that need no registration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from supervisor.core.agent_list import ListedAgent
from supervisor.drivers.confined import UNRESTRICTED, Confined, Unrestricted
from supervisor.drivers.port import AgentKind


class AgentSource(Protocol):
    """Agents that are installed on this machine and can be used without registration."""

    def installed(self) -> Mapping[str, AgentKind]:
        """Return the agents that can be started, by name; nothing is started."""

    def find(self, name: str) -> AgentKind | None:
        """Return the agent of that name if it can be started now."""

    def install_hints(self) -> Mapping[str, str]:
        """Return how to install each agent that is not installed, by name."""

    def listed(self) -> Sequence[ListedAgent]:
        """Return all agents that the source knows, also those that are not installed."""


class AgentsCell:
    """The registered agents by name; calling the cell returns them.

    Agents of the source are added when they are found; a registered agent hides one of the source.
    """

    __slots__ = ("_agents", "_on_found", "source")

    def __init__(self, agents: Mapping[str, AgentKind], source: AgentSource | None = None) -> None:
        self.source = source
        self._agents = self.completed(agents)
        self._on_found: Callable[[], object] | None = None

    def __call__(self) -> Mapping[str, AgentKind]:
        """Return the current agents by name."""
        return self._agents

    def set_on_found(self, callback: Callable[[], object]) -> None:
        """Set the function that is called when an agent of the source was added."""
        self._on_found = callback

    def completed(self, agents: Mapping[str, AgentKind]) -> Mapping[str, AgentKind]:
        """Return the agents and the installed ones of the source whose names are free."""
        return agents if self.source is None else {**self.source.installed(), **agents}

    def replace(self, agents: Mapping[str, AgentKind]) -> None:
        """Replace the registered agents; a session keeps its running agent."""
        self._agents = agents

    def look_for(self, name: str) -> Mapping[str, AgentKind]:
        """Return the agents; if none has the name, ask the source, which may have it by now."""
        if name not in self._agents and self.source is not None:
            found = self.source.find(name)
            if found is not None:
                self._agents = {**self._agents, name: found}
                if self._on_found is not None:
                    self._on_found()
        return self._agents

    def install_hints(self) -> Mapping[str, str]:
        """Return how to install each agent that the source knows and that is not installed."""
        return {} if self.source is None else self.source.install_hints()

    def defaults(self, agent: str) -> Confined | Unrestricted:
        """Return the default permissions, limits and workspace of the agent's sessions."""
        kind = self._agents.get(agent) if isinstance(agent, str) else None
        return kind if isinstance(kind, Confined) else UNRESTRICTED
