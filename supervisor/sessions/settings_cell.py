"""Current settings and agents, each in a cell that `reload` swaps in one step."""

from __future__ import annotations

import math
from collections.abc import Mapping

from supervisor.config import Settings
from supervisor.core.limits import Terms
from supervisor.drivers.port import AgentKind
from supervisor.drivers.restricted import UNRESTRICTED, Confined, Unrestricted


class SettingsCell:
    """The settings in force; calling the cell returns them."""

    __slots__ = ("_default_terms", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # One object for all sessions that use the settings unchanged.
        self._default_terms = _terms(settings)

    def __call__(self) -> Settings:
        """Return the current settings."""
        return self._settings

    def replace(self, settings: Settings) -> None:
        """Put other settings in force; sessions that exist keep their terms."""
        self._settings = settings
        self._default_terms = _terms(settings)

    def terms_of(self, settings: Settings) -> Terms:
        """Return the terms of a session created under these settings."""
        return self._default_terms if settings is self._settings else _terms(settings)


class AgentsCell:
    """The registered agents by name; calling the cell returns them."""

    __slots__ = ("_agents",)

    def __init__(self, agents: Mapping[str, AgentKind]) -> None:
        self._agents = agents

    def __call__(self) -> Mapping[str, AgentKind]:
        """Return the current agents by name."""
        return self._agents

    def replace(self, agents: Mapping[str, AgentKind]) -> None:
        """Register other agents; sessions keep the agent that runs."""
        self._agents = agents

    def defaults(self, agent: str) -> Confined | Unrestricted:
        """Return the permissions, limits and workspace that the agent's sessions get by default."""
        kind = self._agents.get(agent) if isinstance(agent, str) else None
        return kind if isinstance(kind, Confined) else UNRESTRICTED


def process_agents(agents: Mapping[str, AgentKind]) -> frozenset[str]:
    """Return the names of the agents that run as a process."""
    return frozenset(name for name, kind in agents.items() if kind.runs_process)


def _finite_or_none(seconds: float) -> float | None:
    # JSON has no infinity, and a stored value must decode to itself.
    return None if seconds == math.inf else seconds


def _terms(settings: Settings) -> Terms:
    return Terms(
        queue_cap=settings.queue_cap,
        max_text_bytes=settings.max_text_bytes,
        steer_fallback=settings.steer_fallback,
        ladder=settings.ladder,
        restart=settings.restart,
        permission_timeout_seconds=settings.permission_timeout_seconds,
        suspend_after_seconds=_finite_or_none(settings.suspend_after_seconds),
        max_turn_bytes=settings.max_turn_bytes,
        quiet_after_seconds=settings.quiet_after_seconds,
        stalled_after_seconds=settings.stalled_after_seconds,
        tool_stalled_after_seconds=settings.tool_stalled_after_seconds,
        on_stall=settings.on_stall,
        turn_deadline_seconds=settings.turn_deadline_seconds,
        answers_for_children=settings.answers_for_children,
    )
